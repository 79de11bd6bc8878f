package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// goesBehind has p carry out a call behind first, and returns it and what receives what Do returned.
func goesBehind(t *testing.T, p *Pool, first *Call, argument string) (c *Call, did <-chan error) {
	c, ended := ask(argument), make(chan error, 1)
	c.Behind = first
	go func() {
		_, err := p.Do(t.Context(), c)
		ended <- err
	}()
	return c, ended
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
	s.unhurried(p)
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
	s.unhurried(p)
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

// An undone context panics when it is waited for.
type undone struct{ context.Context }

func (undone) Done() <-chan struct{} { panic("undone") }

// Late is told of a call also where one who awaits it panics.
func TestWhoAwaitsACallMayPanic(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	s.answered(p, "first")
	reply := make(chan struct{})
	replies := sync.OnceFunc(func() { close(reply) })
	defer replies()
	s.does(func(w io.Writer, argument string) error { <-reply; return echo(w, argument) })
	other := make(chan struct{})
	go func() { defer close(other); s.answered(p, "other") }()
	await.Until(t, "another caller reads", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.conns[0].inFlight.n == 1 && !p.conns[0].reading.free()
	})
	c, told := s.posted(p, "posted", false)
	func() {
		defer func() {
			if v := recover(); v != "undone" {
				t.Errorf("panic: %v", v)
			}
		}()
		p.Await(undone{t.Context()}, c)
	}()
	replies()
	await.Receive(t, "the reply to the other caller", other)
	if err := await.Receive(t, "Late", told); err != nil {
		t.Error(err)
	}
}

// Whoever takes a connection behind a call that nobody awaits has its reply when that call's way to a far server and back is over,
// and so dials no other one. Where that takes longer than usual it does.
func TestAFarCallThatNobodyAwaitsIsNotOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		p := farServer(&running)
		do := func() {
			if _, err := p.Do(t.Context(), ask("far")); err != nil {
				t.Error(err)
			}
		}
		post := func(text string) {
			c := ask(text)
			c.Late = func([]byte, error) {}
			p.Post(c, false)
		}
		do() // so it is known how far away the server is
		for range 20 {
			post("far")
			time.Sleep(35 * time.Millisecond) // a reply takes 40 to 60, and it is read for since 10 to 20
			do()
		}
		if n := p.Connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		post("lost")
		time.Sleep(20*time.Millisecond + 60*time.Millisecond*3/2 + overdueAfter)
		do()
		if n := p.Connections(); n != 2 {
			t.Errorf("%d connections after a reply was missing for long, want 2", n)
		}
		p.Close()
		running.Wait()
	})
}

// A socket that is full holds up whoever posts, before anybody knows that the server takes nothing: until the connection is given up.
func TestWhatHoldsUpPostIsBounded(t *testing.T) {
	for _, soon := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var running sync.WaitGroup
			p := New(Options{Size: 1, Silence: time.Second, Dial: func(context.Context) (net.Conn, error) {
				mine, theirs := net.Pipe() // has no room: a write waits for a read
				running.Go(func() {
					if text, err := argument(bufio.NewReader(theirs)); err == nil {
						_ = echo(theirs, text) // and nothing more is read
					}
				})
				return mine, nil
			}})
			if _, err := p.Do(t.Context(), ask("first")); err != nil {
				t.Fatal(err)
			}
			c, told := ask("posted"), make(chan error, 1)
			c.Late = func(_ []byte, err error) { told <- err }
			began := time.Now()
			p.Post(c, soon)
			if took := time.Since(began); took > p.options.Silence+3*tickEvery {
				t.Errorf("soon %v: Post took %v, want %v and some ticks at most", soon, took, p.options.Silence)
			}
			if err := failed(t, await.Receive(t, "Late", told), true, false); !errors.Is(err, ErrSilent) {
				t.Errorf("soon %v: Late = %v, want %v", soon, err, ErrSilent)
			}
			p.Close()
			running.Wait()
		})
	}
}

// A call that was posted is over where its connection hangs, once somebody awaits it: whoever has posted it can send it again. A
// call that nobody awaits has all its time, and so has one whose owner waits.
func TestACallThatIsAwaitedIsOverWhereItsConnectionHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		p := farServer(&running)
		if _, err := p.Do(t.Context(), ask("far")); err != nil {
			t.Fatal(err)
		}
		var tolds []<-chan error
		var calls []*Call
		for range 3 {
			c, told := ask("lost"), make(chan error, 1)
			c.Deadline = time.Now().Add(900 * time.Millisecond)
			c.Late = func(_ []byte, err error) { told <- err }
			p.Post(c, false)
			calls, tolds = append(calls, c), append(tolds, told)
		}
		began := time.Now()
		owned := make(chan time.Duration, 1)
		go func() {
			c := ask("lost")
			c.Deadline = began.Add(900 * time.Millisecond)
			_, _ = p.Do(t.Context(), c)
			owned <- time.Since(began)
		}()
		var awaits sync.WaitGroup
		for _, c := range calls[1:] { // the first of them waits, or reads for the other
			awaits.Go(func() { p.Await(t.Context(), c) })
		}
		awaits.Wait()
		if took := time.Since(began); took < hangsLeast || took > hangsLeast+3*tickEvery {
			t.Errorf("Await returned after %v, want %v and some ticks", took, hangsLeast)
		}
		for _, told := range tolds[1:] {
			if err := failed(t, await.Receive(t, "Late", told), true, false); !errors.Is(err, ErrTimeout) {
				t.Errorf("Late = %v, want %v", err, ErrTimeout)
			}
		}
		_ = failed(t, await.Receive(t, "Late", tolds[0]), true, false)
		if took := time.Since(began); took < 900*time.Millisecond {
			t.Errorf("a call that nobody awaits was over after %v", took)
		}
		if took := await.Receive(t, "the one who waits", owned); took < 900*time.Millisecond {
			t.Errorf("a call whose owner waits was over after %v", took)
		}
		p.Close()
		running.Wait()
	})
}

// A call goes behind one that was posted over its connection, and is carried out behind it, though another connection is idle.
func TestACallGoesBehindOneThatWasPosted(t *testing.T) {
	s := newServer(t)
	p := s.pool(4)
	s.answered(p, "first")
	s.unhurried(p)
	came, goesOn := make(chan string, 4), make(chan struct{}, 4)
	s.does(func(w io.Writer, argument string) error {
		came <- argument
		<-goesOn
		return echo(w, argument)
	})
	for i := range 20 {
		first, told := s.posted(p, "released", i%2 == 0)
		c, did := goesBehind(t, p, first, "asked")
		await.Until(t, "both are in flight", func() bool { return p.inFlight() == 2 })
		if n := p.Connections(); n != 1 {
			t.Fatalf("%d connections, want 1", n)
		}
		goesOn <- struct{}{}
		goesOn <- struct{}{}
		for _, want := range []string{"released", "asked"} {
			if got := await.Receive(t, "what the server was asked", came); got != want {
				t.Errorf("the server was asked %q, want %q", got, want)
			}
		}
		if err := await.Receive(t, "what was asked", did); err != nil {
			t.Fatal(err)
		}
		s.echoed(c.Reply, "asked")
		if err := await.Receive(t, "Late", told); err != nil {
			t.Fatal(err)
		}
	}
}

// Where there is nothing to go behind nothing is sent.
func TestNothingGoesBehindWhatIsNotInFlight(t *testing.T) {
	s := newServer(t)
	p := s.pool(4)
	s.answered(p, "first")
	over, told := s.posted(p, "over", true)
	if err := await.Receive(t, "Late", told); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 9)
	s.does(func(_ io.Writer, argument string) error { asked <- argument; return nil })
	nothing := func(what string, first *Call) {
		t.Helper()
		c := ask(what)
		c.Behind = first
		reusable, err := p.Do(t.Context(), c)
		if e := failed(t, err, false, false); !reusable || !errors.Is(e, ErrNotBehind) {
			t.Errorf("%s: %v, reusable %v, want %v and true", what, err, reusable, ErrNotBehind)
		}
	}
	nothing("it was never sent", new(Call))
	nothing("it is over", over)
	overdue, told := s.posted(p, "overdue", true)
	await.Until(t, "it is overdue", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return overdue.conn.shunned(time.Now())
	})
	nothing("it is overdue", overdue)
	s.cut()
	_ = await.Receive(t, "Late", told)

	retired, told := s.posted(p, "retired", false)
	await.Until(t, "it is in flight", func() bool { return p.inFlight() == 1 })
	p.Retire()
	nothing("its connection is retired", retired)
	for _, want := range []string{"overdue", "retired"} {
		if got := await.Receive(t, "what the server was asked", asked); got != want {
			t.Errorf("the server was asked %q, want %q", got, want)
		}
	}
	s.cut()
	_ = await.Receive(t, "Late", told)
}

// A call that has gone behind another one ends with their connection, and is not sent over another one.
func TestACallThatGoesBehindAnotherStaysThere(t *testing.T) {
	s := newServer(t)
	p := s.pool(4)
	s.answered(p, "first")
	s.unhurried(p)
	s.does(func(io.Writer, string) error { return nil })
	first, told := s.posted(p, "released", false)
	_, did := goesBehind(t, p, first, "asked")
	await.Until(t, "both are in flight", func() bool { return p.inFlight() == 2 })
	s.does(echo)
	s.cut()
	if err := await.Receive(t, "what was asked", did); err == nil {
		t.Error("it was sent over another connection")
	}
	if err := await.Receive(t, "Late", told); err == nil {
		t.Error("a call whose connection was cut has a reply")
	}
}

// A call that has gone behind another one is over where their connection hangs, and so is the other one, as with Await.
func TestACallThatGoesBehindAnotherIsOverWhereTheyHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		p := farServer(&running)
		if _, err := p.Do(t.Context(), ask("far")); err != nil {
			t.Fatal(err)
		}
		first, told := ask("lost"), make(chan error, 1)
		first.Deadline = time.Now().Add(900 * time.Millisecond)
		first.Late = func(_ []byte, err error) { told <- err }
		p.Post(first, false)
		began := time.Now()
		c := ask("lost")
		c.Deadline, c.Behind = began.Add(900*time.Millisecond), first
		if _, err := p.Do(t.Context(), c); !errors.Is(failed(t, err, true, false), ErrTimeout) {
			t.Errorf("Do = %v, want %v", err, ErrTimeout)
		}
		_ = failed(t, await.Receive(t, "Late", told), true, false)
		if took := time.Since(began); took < hangsLeast || took > hangsLeast+3*tickEvery {
			t.Errorf("both were over after %v, want %v and some ticks", took, hangsLeast)
		}
		p.Close()
		running.Wait()
	})
}
