package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

// posted posts ECHO, and returns the call and what receives what Late is told.
func (s *server) posted(p *Pool, argument string, soon bool) (*Call, <-chan error) {
	c, told := ask(argument), make(chan error, 2)
	c.Late = func(replies []byte, err error) {
		if err == nil {
			s.echoed(replies, argument)
		}
		told <- err
	}
	p.Post(c, soon)
	return c, told
}

// Late is told of a call that was posted, whether somebody waits for that or not, and no other call is made.
func TestWhoHasPostedIsTold(t *testing.T) {
	s := newServer(t)
	p := s.pool(2)
	for i := range 20 {
		_, told := s.posted(p, fmt.Sprint("call ", i), i%2 == 0) // the first waits for the connection
		if err := await.Receive(t, "Late", told); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	await.Until(t, "no call is open", func() bool { return p.Open() == 0 })
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// A connection on which only lazy calls are in flight is idle: the next caller takes it, and reads their replies, too.
func TestTheNextCallerReadsWhatNobodyAwaits(t *testing.T) {
	s := newServer(t)
	p := s.pool(4)
	s.answered(p, "first")
	for i := range 200 {
		_, told := s.posted(p, fmt.Sprint("lazy ", i), false)
		s.answered(p, fmt.Sprint("next ", i))
		if n := p.Connections(); n != 1 {
			t.Fatalf("%d connections, want 1", n)
		}
		select {
		case err := <-told:
			if err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("call %d: Late was not called before the reply behind it was handed out", i)
		}
	}
}

// Whoever posts does not wait for a server that stands still, and is told at the deadline; the connections are found to hang.
func TestWhoPostsDoesNotWaitForTheServer(t *testing.T) {
	s := newServer(t)
	p := s.pool(2)
	s.answered(p, "first")
	resume := s.stopsReading()
	s.does(func(io.Writer, string) error { return nil })
	var tolds []<-chan error
	for i := range 200 {
		c, told := ask(fmt.Sprint("call ", i)), make(chan error, 2)
		c.Deadline = time.Now().Add(300 * time.Millisecond)
		c.Late = func(_ []byte, err error) { told <- err }
		began := time.Now()
		p.Post(c, i%2 == 0)
		if took := time.Since(began); took > patience/4 {
			t.Errorf("Post took %v", took)
		}
		tolds = append(tolds, told)
	}
	for _, told := range tolds {
		if err := await.Receive(t, "Late", told); !failed(t, err, true, false).Sent {
			t.Errorf("Late = %v, want one that was sent", err)
		}
	}
	resume()
}

// Await returns with the reply, when its context ends, and when the call has ended; Late is called once.
func TestWhatWasPostedMayBeAwaited(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	s.answered(p, "first")
	goesOn := make(chan struct{}, 1)
	s.does(func(w io.Writer, argument string) error {
		<-goesOn
		_, err := fmt.Fprintf(w, "$%d\r\n%s\r\n", len(argument), argument)
		return err
	})
	c, told := s.posted(p, "awaited", false)
	goesOn <- struct{}{}
	p.Await(t.Context(), c)
	select {
	case err := <-told:
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatal("Late was not called before Await returned")
	}
	p.Await(t.Context(), c) // it has ended

	c, told = s.posted(p, "left", false)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	p.Await(ctx, c)
	if ctx.Err() == nil {
		t.Error("Await returned before its context ended, without a reply")
	}
	goesOn <- struct{}{}
	if err := await.Receive(t, "Late", told); err != nil {
		t.Error(err)
	}
	if len(told) > 0 {
		t.Error("Late was called twice")
	}
}

// What becomes of a call is not what becomes of somebody who awaits it: whose context ends, and may panic when it is asked why.
func TestWhoAwaitsACallDoesNotSpeakForIt(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	s.answered(p, "first")
	s.does(func(io.Writer, string) error { return nil })
	c, told := s.posted(p, "posted", false)
	ctx, cancel := context.WithCancelCause(t.Context())
	awaited := make(chan struct{})
	go func() { defer close(awaited); p.Await(ctx, c) }()
	await.Until(t, "somebody reads for it", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return c.state == busy && !c.conn.reading.free()
	})
	p.mu.Lock() // both at the same moment, as the reader has it
	cancel(errGaveUp)
	p.conns[0].broke(io.EOF)
	p.unlock()
	await.Receive(t, "the one who awaits", awaited)
	if err := failed(t, await.Receive(t, "Late", told), true, false); !errors.Is(err, io.EOF) {
		t.Errorf("Late = %v, want %v", err, io.EOF)
	}
}

// What is posted to a pool that is closed, or that cannot dial, is told so.
func TestWhatIsPostedToNobody(t *testing.T) {
	s := newServer(t)
	p := s.pool(1, func(o *Options) {
		o.Dial = func(context.Context) (net.Conn, error) { return nil, errUnlucky }
	})
	_, told := s.posted(p, "nobody", false)
	if err := failed(t, await.Receive(t, "Late", told), false, false); !errors.Is(err, errUnlucky) {
		t.Errorf("Late = %v, want %v", err, errUnlucky)
	}
	p.Close()
	_, told = s.posted(p, "closed", true)
	if err := failed(t, await.Receive(t, "Late", told), false, false); !errors.Is(err, ErrClosed) {
		t.Errorf("Late = %v, want %v", err, ErrClosed)
	}
}

// Where a connection has gone bad, calls do not go over those that may have ended with it, though a dial has failed just before.
func TestADialIsNotPutOffForConnectionsThatMayHaveEnded(t *testing.T) {
	s := newServer(t)
	var fails atomic.Bool
	p := s.pool(3, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			if fails.Load() {
				return nil, errUnlucky
			}
			return dial(ctx)
		}
	})
	s.does(func(io.Writer, string) error { return nil }) // it answers nothing
	for i, connections := range []int{1, 2, 2} {         // the second goes behind the first, and has one more connection dialled
		hangs := ask(fmt.Sprint("hangs ", i))
		hangs.Deadline = time.Now().Add(time.Second)
		go func() { _, _ = p.Do(t.Context(), hangs) }()
		await.Until(t, "the call is in flight", func() bool { return p.inFlight() == i+1 && p.Connections() == connections })
	}
	fails.Store(true)
	p.mu.Lock()
	p.grow(p.conns[0], time.Now())
	p.unlock()
	await.Until(t, "a dial has failed", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return !p.dialFailed.IsZero() })
	fails.Store(false)
	s.does(func(w io.Writer, argument string) error {
		_, err := fmt.Fprintf(w, "$%d\r\n%s\r\n", len(argument), argument)
		return err
	})
	p.mu.Lock()
	p.conns[0].broke(errUnlucky)
	p.unlock()
	accepted := s.accepted.Load()
	s.answered(p, "next")
	if s.accepted.Load() == accepted {
		t.Error("the call went over a connection that may have ended with the one before")
	}
}
