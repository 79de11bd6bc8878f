package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

var errGaveUp = errors.New("the caller gave up")

func TestEachCallHasItsOwnReply(t *testing.T) {
	for _, callers := range []int{1, 2, 8, 64, 512} {
		s := newServer(t)
		p := s.pool(8)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for turn := range 4000/callers + 1 {
					s.answered(p, fmt.Sprint("caller ", i, " turn ", turn))
				}
			})
		}
		all.Wait()
		if n := p.Connections(); n > 8 {
			t.Errorf("%d connections, want 8 at most", n)
		}
	}
}

func TestACallMayBeUsedAgain(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	c := ask("once more")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() {
		if reusable, err := p.Do(ended, c); !reusable || err == nil || len(c.Reply) > 0 {
			t.Errorf("Do = %v, %v, with %q, want an error and no reply", reusable, err, c.Reply)
		}
	}()
	for range 100 {
		if reusable, err := p.Do(t.Context(), c); !reusable || err != nil {
			t.Fatalf("Do = %v, %v", reusable, err)
		}
		s.echoed(c.Reply, "once more")
	}
	if n := s.accepted.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestACallOfSeveralCommands(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	c := ask("a")
	c.Commands, c.Replies = append(append(c.Commands, ask("b").Commands...), ask("c").Commands...), 3
	if _, err := p.Do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, want := string(c.Reply), "$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"; got != want {
		t.Errorf("replies %q, want %q", got, want)
	}
}

func TestRepliesMayArriveAByteAtATime(t *testing.T) {
	s := newServer(t)
	s.does(func(w io.Writer, argument string) error {
		for _, b := range fmt.Appendf(nil, "*2\r\n$%d\r\n%s\r\n:7\r\n", len(argument), argument) {
			if _, err := w.Write([]byte{b}); err != nil {
				return err
			}
		}
		return nil
	})
	p := s.pool(2)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			c := ask(fmt.Sprint(i))
			if _, err := p.Do(t.Context(), c); err != nil {
				t.Error(err)
			}
			if got, _, _ := Parse(c.Reply); fmt.Sprint(got) != fmt.Sprintf("[%d 7]", i) {
				t.Errorf("reply %v, want %d and 7", got, i)
			}
		})
	}
	all.Wait()
}

func TestLargeCommandsAndReplies(t *testing.T) {
	s := newServer(t)
	p := s.pool(2)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for _, size := range []int{1, 5 << 10, 1 << 20, 3} {
				s.answered(p, strings.Repeat(string(rune('a'+i)), size))
			}
		})
	}
	all.Wait()
}

// A connection that ends in the middle of a reply ends the calls on it, whole replies
// that came before count, and the next call takes another one.
func TestAReplyThatIsCut(t *testing.T) {
	const whole = "$5\r\nreply\r\n"
	for cut := range len(whole) {
		s := newServer(t)
		s.does(func(w io.Writer, _ string) error {
			_, _ = io.WriteString(w, whole+whole[:cut])
			return io.EOF
		})
		p := s.pool(1)
		c := ask("a")
		c.Commands, c.Replies = append(c.Commands, c.Commands...), 2
		reusable, err := p.Do(t.Context(), c)
		failed(t, err, true, false)
		if !reusable || string(c.Reply) != whole {
			t.Errorf("cut at %d: reusable %v, replies %q, want the first", cut, reusable, c.Reply)
		}
		s.does(echo)
		s.answered(p, "again")
	}
}

func TestACallIsNotSentWithoutAConnection(t *testing.T) {
	s := newServer(t)
	refused := errors.New("refused")
	p := s.pool(2, func(o *Options) {
		o.Dial = func(context.Context) (net.Conn, error) { return nil, refused }
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			reusable, err := p.Do(t.Context(), ask("a"))
			if e := failed(t, err, false, false); !reusable || !errors.Is(e, refused) {
				t.Errorf("Do = %v, %v, want %v", reusable, e, refused)
			}
		})
	}
	all.Wait()
}

// While a connection is dialled its callers may leave, and have deadlines.
func TestADialThatHangs(t *testing.T) {
	s := newServer(t)
	hangs := make(chan struct{}, 100)
	heals := make(chan struct{})
	p := s.pool(2, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			hangs <- struct{}{}
			select {
			case <-heals:
				return dial(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() { _, err := p.Do(ctx, ask("a")); left <- err }()
	await.Receive(t, "a dial", hangs)
	cancel(errGaveUp)
	if e := failed(t, await.Receive(t, "the caller", left), false, false); !errors.Is(e, errGaveUp) {
		t.Errorf("Do = %v, want its context's cause", e)
	}
	c := ask("b")
	c.Deadline = time.Now().Add(30 * time.Millisecond)
	_, err := p.Do(t.Context(), c)
	if e := failed(t, err, false, false); !errors.Is(e, ErrTimeout) {
		t.Errorf("Do = %v, want %v", e, ErrTimeout)
	}
	served := make(chan struct{})
	go func() { defer close(served); s.answered(p, "c") }()
	await.Receive(t, "another dial, while the first hangs", hangs)
	close(heals)
	await.Receive(t, "the reply", served)
}

func TestACallerThatLeavesIsBackAtOnceAndItsReplyComesLate(t *testing.T) {
	s := newServer(t)
	resume := s.stopsReading()
	p := s.pool(1)
	ctx, cancel := context.WithCancelCause(t.Context())
	lates, left, stays := make(chan string, 10), make(chan error, 1), make(chan struct{})
	c := ask("late")
	c.Late = func(reply []byte, err error) { lates <- fmt.Sprintf("%q %v", reply, err) }
	go func() { // the reader
		reusable, err := p.Do(ctx, c)
		if reusable {
			t.Error("Do says that the call may be used again, and its reply is to come")
		}
		left <- err
	}()
	await.Until(t, "it is in flight", func() bool { return p.inFlight() == 1 })
	s.unhurried(p)
	go func() { defer close(stays); s.answered(p, "stays") }()
	await.Until(t, "both are in flight", func() bool { return p.inFlight() == 2 })
	cancel(errGaveUp)
	if e := failed(t, await.Receive(t, "the caller", left), true, true); !errors.Is(e, errGaveUp) {
		t.Errorf("Do = %v, want its context's cause", e)
	}
	if len(lates) != 0 {
		t.Error("Late was called before there was a reply")
	}
	resume()
	await.Receive(t, "the other's reply", stays)
	if got, want := await.Receive(t, "Late", lates), `"$4\r\nlate\r\n" <nil>`; got != want {
		t.Errorf("Late was told %s, want %s", got, want)
	}
	s.answered(p, "next")
	if n := s.accepted.Load(); n != 1 || len(lates) != 0 {
		t.Errorf("%d connections, want the first alone; Late was called %d times more", n, len(lates))
	}
}

// Ten thousand leave, each of them soon, and those that stay have their replies over
// the same connections.
func TestManyCallersLeaveAndNobodyElseIsDisturbed(t *testing.T) {
	const leaves, stays = 10_000, 100
	s := newServer(t)
	resume := s.stopsReading()
	p := s.pool(4)
	var all, others sync.WaitGroup
	var lates atomic.Int32
	var slowest atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var cancelled atomic.Int64
	for range leaves {
		all.Go(func() {
			c := ask("leaves")
			c.Late = func(_ []byte, err error) {
				if err == nil {
					lates.Add(1)
				}
			}
			_, err := p.Do(ctx, c)
			took := time.Now().UnixNano() - cancelled.Load()
			for was := slowest.Load(); took > was && !slowest.CompareAndSwap(was, took); was = slowest.Load() {
			}
			failed(t, err, true, true)
		})
	}
	for i := range stays {
		others.Go(func() { s.answered(p, fmt.Sprint("stays ", i)) })
	}
	await.Until(t, "all are in flight", func() bool { return p.inFlight() == leaves+stays })
	cancelled.Store(time.Now().UnixNano())
	cancel()
	all.Wait()
	t.Logf("%d callers were back within %v", leaves, time.Duration(slowest.Load()))
	if took := time.Duration(slowest.Load()); took > patience/2 { // a caller that cannot leave is there until the server reads on
		t.Errorf("the last was back after %v", took)
	}
	before := s.accepted.Load()
	resume()
	others.Wait()
	await.Until(t, "all late replies", func() bool { return lates.Load() == leaves })
	if n := s.accepted.Load(); n != before {
		t.Errorf("%d new connections, want none", n-before)
	}
}

// The deadline of one call ends that call alone.
func TestADeadlineEndsItsCallAlone(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	s.answered(p, "first") // so that the deadline is not for making the connection
	s.unhurried(p)
	hold := make(chan struct{})
	resume := sync.OnceFunc(func() { close(hold) })
	defer resume()
	s.does(func(w io.Writer, argument string) error {
		<-hold
		return echo(w, argument)
	})
	stays := make(chan struct{})
	for i, first := range []bool{true, false} { // the reader, and another one
		c := ask("a")
		c.Deadline = time.Now().Add(30 * time.Millisecond)
		c.Late = func([]byte, error) { t.Error("Late was called") }
		reusable, err := p.Do(t.Context(), c)
		if e := failed(t, err, true, false); !errors.Is(e, ErrTimeout) || reusable {
			t.Errorf("Do = %v, %v, want %v", reusable, e, ErrTimeout)
		}
		if first {
			go func() { defer close(stays); s.answered(p, "stays") }()
			await.Until(t, "the next is in flight", func() bool { return p.inFlight() == i+2 })
		}
	}
	resume()
	await.Receive(t, "the reply", stays)
	s.answered(p, "next")
	if n := s.accepted.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// New calls go past a connection on which a reply is late.
func TestALateReplyHoldsUpNobodyElse(t *testing.T) {
	s := newServer(t)
	var stuck atomic.Bool
	hold := make(chan struct{})
	s.does(func(w io.Writer, argument string) error {
		if argument == "slow" && !stuck.Swap(true) {
			<-hold
		}
		return echo(w, argument)
	})
	p := s.pool(3)
	s.answered(p, "first")
	slow := make(chan struct{})
	go func() { defer close(slow); s.answered(p, "slow") }()
	await.Until(t, "the slow command is under way", stuck.Load)
	time.Sleep(2 * overdueAfter) // what is measured here is time
	var all sync.WaitGroup
	start := time.Now()
	for i := range 500 {
		all.Go(func() { s.answered(p, fmt.Sprint(i)) })
	}
	all.Wait()
	t.Logf("500 went past it within %v", time.Since(start))
	select {
	case <-slow:
		t.Error("the slow command was answered")
	default:
	}
	close(hold)
	await.Receive(t, "the slow reply", slow)
}

// A connection that is silent for too long is given up, with all that is in flight on it.
func TestASilentConnectionIsGivenUp(t *testing.T) {
	s := newServer(t)
	var taken atomic.Int32
	s.does(func(w io.Writer, argument string) error {
		if taken.Add(1) <= 2 {
			return nil // as if the way back were cut
		}
		return echo(w, argument)
	})
	p := s.pool(1, func(o *Options) { o.Silence = 100 * time.Millisecond })
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			reusable, err := p.Do(t.Context(), ask("a"))
			if e := failed(t, err, true, false); !errors.Is(e, ErrSilent) || !reusable {
				t.Errorf("Do = %v, %v, want %v", reusable, e, ErrSilent)
			}
		})
	}
	all.Wait()
	p.bearsSilence()
	s.answered(p, "again")
}

// A server that does not read: the writer cannot go on, and is back in time all the
// same. What was never written is certain.
func TestAServerThatDoesNotRead(t *testing.T) {
	s := newServer(t)
	s.stopsReading()
	p := s.pool(1)
	large := ask(strings.Repeat("x", 64<<20)) // more than all buffers on the way
	ctx, cancel := context.WithCancel(t.Context())
	writer, behind := make(chan error, 1), make(chan error, 1)
	go func() { _, err := p.Do(ctx, large); writer <- err }()
	await.Until(t, "the writer is stuck", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		k := p.conns[0]
		return k != nil && !k.writing.free() && time.Since(k.since) > overdueAfter
	})
	go func() { _, err := p.Do(ctx, ask("behind")); behind <- err }()
	await.Until(t, "another is behind it", func() bool { return p.inFlight() == 2 })
	start := time.Now()
	cancel()
	failed(t, await.Receive(t, "the writer", writer), true, false)
	if took := time.Since(start); took > patience/4 { // without the end of its context it is there until the server reads on
		t.Errorf("the writer was back after %v", took)
	}
	await.Receive(t, "the other", behind)
}

// Of a connection that broke, what was not written goes over another one.
func TestWhatWasNotWrittenIsCarriedOver(t *testing.T) {
	for _, err := range []error{net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		s := newServer(t)
		var broken atomic.Int32
		p := s.pool(1, wrapped(func(c net.Conn) net.Conn {
			if broken.Add(1) == 1 {
				return &refuses{c, &net.OpError{Op: "write", Err: err}}
			}
			return c
		}))
		s.answered(p, "a")
		if n := broken.Load(); n != 2 {
			t.Errorf("%v: %d connections, want 2", err, n)
		}
	}
}

// refuses is a connection that had ended before anything is written.
type refuses struct {
	net.Conn
	err error
}

func (r *refuses) Write([]byte) (int, error) { return 0, r.err }

// The server closes connections that rest, and nobody notices but the pool.
func TestAConnectionThatEndsWhileItRests(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	for turn := range 2 {
		s.answered(p, "first")
		await.Until(t, "the connection is read while it rests", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.conns[0] != nil && !p.conns[0].reading.free()
		})
		if turn == 0 {
			s.answered(p, "and used")
			continue
		}
		s.cut()
		await.Until(t, "its end is seen", func() bool { return p.Connections() == 0 })
		s.answered(p, "next")
	}
}

func TestRepliesThatAreNone(t *testing.T) {
	for _, reply := range []string{"?\r\n", "$x\r\n", "$-2\r\n", "*9999999\r\n", "$1\r\nabc", "\r\n", "+a\n", "$3\r\nabc\r\n$3\r\nabc\r\n"} {
		s := newServer(t)
		s.does(func(w io.Writer, _ string) error { _, err := io.WriteString(w, reply); return err })
		p := s.pool(1)
		_, err := p.Do(t.Context(), ask("a"))
		if strings.HasPrefix(reply, "$3") {
			continue // the first is one
		}
		if e := failed(t, err, true, false); !errors.Is(e, ErrProtocol) {
			t.Errorf("%q: Do = %v, want %v", reply, e, ErrProtocol)
		}
	}
}

func TestCloseWaitsForCallsUnderWay(t *testing.T) {
	s := newServer(t)
	resume := s.stopsReading()
	p := s.pool(2)
	ctx, cancel := context.WithCancel(t.Context())
	lates, left, closed := make(chan error, 1), make(chan error, 1), make(chan struct{})
	c := ask("a")
	c.Late = func(_ []byte, err error) { lates <- err }
	go func() { _, err := p.Do(ctx, c); left <- err }()
	await.Until(t, "it is in flight", func() bool { return p.inFlight() == 1 })
	cancel()
	await.Receive(t, "the caller", left)
	go func() { defer close(closed); p.Close() }()
	await.Until(t, "Close has begun", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.closed
	})
	_, err := p.Do(t.Context(), ask("b"))
	if e := failed(t, err, false, false); !errors.Is(e, ErrClosed) {
		t.Errorf("Do = %v, want %v", e, ErrClosed)
	}
	resume()
	await.Receive(t, "Close", closed)
	if len(lates) != 1 {
		t.Error("Close did not wait for the call under way")
	}
}

// A call whose caller has left is open until its Late has returned, also if another caller
// reads its reply, and so calls it. Close waits for it.
func TestACallIsOpenUntilItsLateHasReturned(t *testing.T) {
	s := newServer(t)
	gone := make(chan struct{})
	s.does(func(w io.Writer, argument string) error { // both replies in one piece
		if argument == "reads" {
			return nil
		}
		<-gone
		_, err := io.WriteString(w, "$5\r\nreads\r\n$6\r\nleaves\r\n")
		return err
	})
	p := s.pool(1)
	ctx, cancel := context.WithCancel(t.Context())
	left, closed, read := make(chan error, 1), make(chan struct{}), make(chan struct{})
	c := ask("leaves")
	c.Late = func([]byte, error) {
		if n := p.Open(); n == 0 {
			t.Error("no call is open while Late is called")
		}
		go func() { defer close(closed); p.Close() }()
		await.Until(t, "Close has begun", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.closed
		})
		select {
		case <-p.drained:
			t.Error("Close does not wait for Late")
		default:
		}
	}
	go func() { defer close(read); s.answered(p, "reads") }()
	await.Until(t, "the reader's call is in flight", func() bool { return p.inFlight() == 1 })
	s.unhurried(p)
	go func() { _, err := p.Do(ctx, c); left <- err }()
	await.Until(t, "the other's is, too", func() bool { return p.inFlight() == 2 })
	cancel()
	await.Receive(t, "the caller", left)
	close(gone)
	await.Receive(t, "the reader", read)
	await.Receive(t, "Close", closed)
}

// Whatever happens at one moment, each call ends once: it is answered, or it fails, or
// Late is called.
func TestCallsEndOnce(t *testing.T) {
	s := newServer(t)
	p := s.pool(3, func(o *Options) { o.Silence = time.Second })
	stop := make(chan struct{})
	var chaos, all sync.WaitGroup
	chaos.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				s.cut()
			}
		}
	})
	var answered, broke, timedOut, gone, lates atomic.Int32
	for i := range 64 {
		all.Go(func() {
			for turn := range 150 {
				ctx, cancel := context.WithCancel(t.Context())
				argument := fmt.Sprint(i, "/", turn)
				c := ask(argument)
				c.Late = func(reply []byte, err error) {
					if lates.Add(1); err == nil {
						s.echoed(reply, argument)
					}
				}
				switch turn % 4 {
				case 1:
					go cancel()
				case 2:
					c.Deadline = time.Now().Add(time.Duration(turn) * 10 * time.Microsecond)
				}
				_, err := p.Do(ctx, c)
				cancel()
				e := (*Error)(nil)
				switch {
				case err == nil:
					s.echoed(c.Reply, argument)
					answered.Add(1)
				case errors.As(err, &e) && e.Pending:
					gone.Add(1)
				case errors.Is(err, ErrTimeout):
					timedOut.Add(1)
				default:
					broke.Add(1)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	chaos.Wait()
	p.Close()
	t.Logf("%d answered, %d broke, %d out of time, %d gone", answered.Load(), broke.Load(), timedOut.Load(), gone.Load())
	if gone.Load() != lates.Load() {
		t.Errorf("%d callers left, and Late was called %d times", gone.Load(), lates.Load())
	}
}
