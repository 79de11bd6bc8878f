package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

// wrapped has the pool's connections wrapped.
func wrapped(wrap func(net.Conn) net.Conn) func(*Options) {
	return func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return wrap(c), nil
		}
	}
}

// freezes has s not reply any more over connections on which it has replied. It
// replies over new ones.
func (s *server) freezes() (freeze func()) {
	var mu sync.Mutex
	known := make(map[io.Writer]bool)
	frozen := false
	s.does(func(w io.Writer, argument string) error {
		mu.Lock()
		hangs := frozen && known[w]
		if !frozen {
			known[w] = true
		}
		mu.Unlock()
		if hangs {
			return nil
		}
		return echo(w, argument)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		frozen = true
	}
}

// connected has p open n connections, all of which have been used.
func (s *server) connected(p *Pool, n int) {
	s.Helper()
	resume := s.stopsReading()
	var all sync.WaitGroup
	await.Until(s.T, "all connections are in use", func() bool {
		p.mu.Lock()
		used := 0
		for _, k := range p.conns {
			if k != nil && k.inFlight.n > 0 {
				used++
			}
		}
		p.mu.Unlock()
		if used < n {
			all.Go(func() { s.answered(p, "one of many") })
		}
		return used == n
	})
	resume()
	all.Wait()
	await.Until(s.T, "all replies", func() bool { return p.inFlight() == 0 })
}

// A server that reads nothing more before its replies are read gets the whole of a large
// call all the same.
func TestRepliesAreReadWhileTheWriterIsStuck(t *testing.T) {
	const commands = 2000
	s := newServer(t)
	p := s.pool(1, wrapped(func(c net.Conn) net.Conn {
		_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10)
		return c
	}))
	c := ask(strings.Repeat("x", 16<<10))
	c.Commands, c.Replies = bytes.Repeat(c.Commands, commands), commands
	if _, err := p.Do(t.Context(), c); err != nil {
		t.Fatalf("Do = %v", err)
	}
}

// A call that waits for a connection is not forgotten when that finds no place.
func TestAConnectionWithoutAPlace(t *testing.T) {
	s := newServer(t)
	slow := make(chan struct{})
	var dials atomic.Int32
	p := s.pool(1, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			if dials.Add(1) == 1 {
				<-slow
			}
			return dial(ctx)
		}
	})
	s.answered(p, "over the second connection")
	hold := make(chan struct{})
	s.does(func(w io.Writer, argument string) error { <-hold; return echo(w, argument) })
	var all sync.WaitGroup
	all.Go(func() { s.answered(p, "held up") })
	await.Until(t, "its reply is late", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		k := p.conns[0]
		return k != nil && k.overdue(time.Now())
	})
	all.Go(func() { s.answered(p, "waits for the first connection") })
	await.Until(t, "it waits", func() bool { return p.Open() == 2 })
	close(slow)
	await.Until(t, "it takes the other one", func() bool { return p.inFlight() == 2 })
	close(hold)
	all.Wait()
}

// ignoring is a connection that does not heed deadlines, like one through an SSH tunnel whose
// errors somebody has taken away.
type ignoring struct{ net.Conn }

func (ignoring) SetDeadline(time.Time) error      { return nil }
func (ignoring) SetReadDeadline(time.Time) error  { return nil }
func (ignoring) SetWriteDeadline(time.Time) error { return nil }

// Callers leave although their connection does not heed deadlines. Only the first one
// costs the connection.
func TestAConnectionThatDoesNotHeedDeadlines(t *testing.T) {
	s := newServer(t)
	p := s.pool(1, wrapped(func(c net.Conn) net.Conn { return ignoring{c} }))
	for range 3 {
		hold := make(chan struct{})
		s.does(func(w io.Writer, argument string) error { <-hold; return echo(w, argument) })
		ctx, cancel := context.WithCancelCause(t.Context())
		left := make(chan error, 1)
		c := ask("a")
		go func() { _, err := p.Do(ctx, c); left <- err }()
		await.Until(t, "it is in flight and read for", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			k := p.conns[0]
			return k != nil && k.inFlight.n == 1 && !k.reading.free()
		})
		start := time.Now()
		cancel(errGaveUp)
		if err := await.Receive(t, "the caller", left); !errors.Is(err, errGaveUp) {
			t.Errorf("Do = %v, want %v", err, errGaveUp)
		}
		if took := time.Since(start); took > patience/4 {
			t.Errorf("the caller was back after %v", took)
		}
		close(hold)
		s.answered(p, "next")
		s.unhurried(p)
	}
	if n := s.accepted.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// odd is a connection with an error of its own for deadlines, like those of yamux.
type odd struct{ net.Conn }

type errOdd struct{ error }

func (errOdd) Timeout() bool   { return true }
func (errOdd) Temporary() bool { return true }

func (o odd) Read(b []byte) (int, error) {
	n, err := o.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errOdd{errors.New("i/o deadline reached")}
	}
	return n, err
}

func TestADeadlineWithAnErrorOfItsOwn(t *testing.T) {
	s := newServer(t)
	p := s.pool(1, wrapped(func(c net.Conn) net.Conn { return odd{c} }))
	resume := s.stopsReading()
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() { _, err := p.Do(ctx, ask("a")); left <- err }()
	await.Until(t, "it is in flight", func() bool { return p.inFlight() == 1 })
	s.unhurried(p)
	cancel(errGaveUp)
	failed(t, await.Receive(t, "the caller", left), true, true)
	resume()
	s.answered(p, "next")
	if n := s.accepted.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// slowToClose is a connection whose Close does not return before the test ends.
type slowToClose struct {
	net.Conn
	end <-chan struct{}
}

func (c slowToClose) Close() error {
	<-c.end
	return c.Conn.Close()
}

// Neither callers nor Close wait for a connection that takes its time to close.
func TestAConnectionWhoseCloseBlocks(t *testing.T) {
	s := newServer(t)
	end := make(chan struct{})
	p := New(Options{Size: 1, Silence: 100 * time.Millisecond, Dial: func(ctx context.Context) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr().String())
		return slowToClose{c, end}, err
	}})
	closed := make(chan struct{})
	defer func() { close(end); p.closing.Wait() }()
	resume := s.stopsReading()
	_, err := p.Do(t.Context(), ask("a"))
	if e := failed(t, err, true, false); !errors.Is(e, ErrSilent) {
		t.Errorf("Do = %v, want %v", e, ErrSilent)
	}
	resume()
	p.bearsSilence()
	s.answered(p, "next")
	go func() { defer close(closed); p.Close() }()
	select {
	case <-closed:
	case <-time.After(10 * closeTimeout):
		t.Errorf("Close did not return within %v", 10*closeTimeout)
	}
}

// What a server sends unasked is no part of the next reply.
func TestTheBeginningOfAReplyToNothing(t *testing.T) {
	s := newServer(t)
	var replied atomic.Int32
	s.does(func(w io.Writer, argument string) error {
		more := ""
		if replied.Add(1) == 1 {
			more = "$7\r\nhal"
		}
		_, err := fmt.Fprintf(w, "$%d\r\n%s\r\n%s", len(argument), argument, more)
		return err
	})
	p := s.pool(1)
	s.answered(p, "first")
	s.answered(p, "next")
}

// slowToWrite is a connection whose Write returns long after the bytes have arrived.
type slowToWrite struct {
	net.Conn
	end <-chan struct{}
}

func (c slowToWrite) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	<-c.end
	return n, err
}

// A reply that comes before its command was written is none.
func TestAReplyToACommandThatIsNotWritten(t *testing.T) {
	s := newServer(t)
	end := make(chan struct{})
	var replied, dialled atomic.Int32
	more := make(chan struct{})
	s.does(func(w io.Writer, argument string) error {
		err := echo(w, argument)
		if replied.Add(1) == 1 {
			<-more
			err = echo(w, "who asked?")
		}
		return err
	})
	p := s.pool(1, wrapped(func(c net.Conn) net.Conn {
		if dialled.Add(1) == 1 {
			return slowToWrite{c, end}
		}
		return c
	}))
	var all sync.WaitGroup
	all.Go(func() { s.answered(p, "first") })
	await.Until(t, "the first is written", func() bool { return replied.Load() == 1 })
	s.unhurried(p)
	all.Go(func() { s.answered(p, "next") })
	await.Until(t, "the next waits for the writer", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		k := p.conns[0]
		return k != nil && len(k.buffer) > 0
	})
	close(more)
	await.Until(t, "the connection is given up", func() bool { return dialled.Load() > 1 })
	close(end)
	all.Wait()
}

// The end of a connection that rests is seen, whichever it is.
func TestAllConnectionsEndWhileTheyRest(t *testing.T) {
	const size = warmMost + 2
	s := newServer(t)
	p := s.pool(size)
	s.connected(p, size)
	s.cut()
	await.Until(t, "their end is seen", func() bool { return p.Connections() == 0 })
}

// refusing is a connection that was closed, as its caller leaves.
type refusing struct {
	net.Conn
	leave func()
}

func (c refusing) Write([]byte) (int, error) { c.leave(); return 0, net.ErrClosed }

// What was not written is not carried over for a caller that has left.
func TestNothingIsSentForACallerThatHasLeft(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	p := s.pool(1, wrapped(func(c net.Conn) net.Conn { return refusing{c, func() { cancel(errGaveUp) }} }))
	reusable, err := p.Do(ctx, ask("a"))
	if e := failed(t, err, false, false); !reusable || !errors.Is(e, errGaveUp) {
		t.Errorf("Do = %v, %v, want %v", reusable, e, errGaveUp)
	}
}

// Connections that hang while the server is well are replaced, even where there may be no
// more of them, and although the last one was dialled just before.
func TestAllConnectionsHang(t *testing.T) {
	const size = 3
	s := newServer(t)
	p := s.pool(size)
	freeze := s.freezes()
	s.connected(p, size)
	freeze()
	var all sync.WaitGroup
	defer all.Wait()
	for range size {
		all.Go(func() {
			c := ask("hangs")
			c.Deadline = time.Now().Add(time.Second)
			_, _ = p.Do(t.Context(), c)
		})
	}
	await.Until(t, "all connections hang", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dialTook, p.dialFailed, p.swapDialled = 0, time.Time{}, time.Time{} // connected may have dialled, and for long
		for _, k := range p.conns {
			if k == nil || k.inFlight.n == 0 || time.Since(k.heard) < 3*hangsLeast { // the next dial may take long, too
				return false
			}
		}
		p.dialBegan = time.Now()
		return true
	})
	start := time.Now()
	s.answered(p, "well")
	t.Logf("answered after %v", time.Since(start))
	if took := time.Since(start); took > patience/4 {
		t.Errorf("answered after %v", took)
	}
}

// A server that takes connections and carries out nothing, such as one whose writes are
// paused for a fail-over, is left to answer: its connections are not replaced one after
// the other, which would end the calls on them.
func TestAServerThatOnlyTakesConnections(t *testing.T) {
	const size, dials = 4, 4
	s := newServer(t)
	p := s.pool(size)
	s.connected(p, size)
	resumed := make(chan struct{})
	s.does(func(w io.Writer, argument string) error { <-resumed; return echo(w, argument) })
	before := s.accepted.Load()
	var all sync.WaitGroup
	var calls, ended atomic.Int64
	enough := time.After(dials * dialAgain)
	for done := false; !done; {
		calls.Add(1)
		all.Go(func() {
			if _, err := p.Do(t.Context(), ask("paused")); err != nil {
				ended.Add(1)
			}
		})
		select {
		case <-enough:
			done = true
		case <-time.After(overdueAfter):
		}
	}
	replaced := s.accepted.Load() - before
	close(resumed)
	all.Wait()
	if replaced > 2 || ended.Load() > calls.Load()/size { // one, and on a busy machine another; one after the other are about four
		t.Errorf("%d of %d connections were replaced, and %d of %d calls ended; want one connection, or two", replaced, size, ended.Load(), calls.Load())
	}
}

// restore undoes what a test has pretended to be in flight. The caller holds mu.
func (p *Pool) restore() {
	for _, k := range p.conns {
		k.inFlight.n = 0
	}
}

// Of the connections that hang the one with the fewest calls is replaced, whichever is
// silent for longest; none, once one hangs that took the place of another.
func TestTheConnectionThatIsReplaced(t *testing.T) {
	const size = 3
	s := newServer(t)
	p := s.pool(size)
	s.connected(p, size)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	hang := hangsLeast + 2*p.dialTook
	for i, k := range p.conns {
		k.heard = now.Add(-time.Duration(size-i) * hang)
		k.arrived, k.inFlight.n = k.heard, [size]int{5, 3, 4}[i]
	}
	defer p.restore()
	if p.hanging(now, now) != p.conns[1] {
		t.Error("another connection than the one with the fewest calls")
	}
	p.conns[2].untried = true
	if p.hanging(now, now) != nil {
		t.Error("a connection, although the server answers over none")
	}
}

// Where a reply takes longer than hangsLeast by distance alone, no connection is replaced.
func TestConnectionsOverALongDistance(t *testing.T) {
	const size, callers, distance = 2, 4, hangsLeast + hangsLeast/2
	s := newServer(t)
	p := s.pool(size, wrapped(func(c net.Conn) net.Conn { time.Sleep(2 * distance); return c }))
	s.connected(p, size)
	s.does(func(w io.Writer, argument string) error { time.Sleep(distance); return echo(w, argument) })
	before := s.accepted.Load() // more than size where dials overtook each other
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 4 {
				s.answered(p, "far away")
			}
		})
	}
	all.Wait()
	if n := s.accepted.Load() - before; n != 0 {
		t.Errorf("%d new connections, want none", n)
	}
}

// A call that is urgent goes past those that wait for a reply.
func TestAnUrgentCallTakesTheLightestConnection(t *testing.T) {
	const size = 3
	s := newServer(t)
	p := s.pool(size)
	s.connected(p, size)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range p.conns {
		k.heard, k.inFlight.n = now, [size]int{50, 30, 40}[i]
	}
	defer p.restore()
	for urgent, want := range map[bool]*conn{false: p.conns[0], true: p.conns[1]} {
		if got := p.choose(&Call{Urgent: urgent}, now); got != want {
			t.Errorf("urgent %v: another connection than wanted", urgent)
		}
	}
	p.conns[1].heard = now.Add(-2 * overdueAfter)
	if p.choose(&Call{Urgent: true}, now) != p.conns[2] {
		t.Error("an urgent call takes a connection on which a reply is late")
	}
}

// Up to three calls have a connection each, up to some hundred share one, and more take whichever is idle; nobody takes one on which
// a reply is late.
func TestSomeCallsShareOneConnection(t *testing.T) {
	const size = 4
	s := newServer(t)
	p := s.pool(size)
	s.connected(p, size)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.restore()
	for _, c := range []struct {
		inFlight [size]int
		late     int // the connection on which a reply is; size: none
		want     int
	}{
		{[size]int{0, 0, 0, 0}, size, 0},
		{[size]int{1, 1, 1, 0}, size, 3},
		{[size]int{1, 1, 2, 0}, size, 0},
		{[size]int{9, 2, 1, 0}, size, 0},
		{[size]int{9, 2, 1, 0}, 0, 3},
		{[size]int{9, 2, 1, 1}, 0, 1},
		{[size]int{crowdMost - 1, 1, 0, 0}, size, 0},
		{[size]int{crowdMost, 1, 0, 0}, size, 2},
	} {
		for i, k := range p.conns {
			k.heard, k.inFlight.n = now, c.inFlight[i]
			if i == c.late {
				k.heard = now.Add(-2 * overdueAfter)
			}
		}
		if got := p.choose(&Call{}, now); got != p.conns[c.want] {
			t.Errorf("%v in flight: another connection than number %d", c.inFlight, c.want)
		}
	}
}

// After a call that was out of time over a connection that hangs, those that have rested
// meanwhile are not trusted either, although their last replies came when the call was sent
// already.
func TestConnectionsThatRestWhileAnotherHangs(t *testing.T) {
	const size = 4
	s := newServer(t)
	p := s.pool(size)
	freeze := s.freezes()
	s.connected(p, size)
	freeze()
	before := s.accepted.Load()
	p.mu.Lock()
	hang := p.hangsAfter()
	p.mu.Unlock()
	c := ask("hangs")
	c.Deadline = time.Now().Add(2 * hang)
	var others sync.WaitGroup
	others.Go(func() {
		await.Until(t, "it is in flight", func() bool { return p.inFlight() == 1 })
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, k := range p.conns {
			if k != nil {
				k.proven = c.added.Add(time.Millisecond)
			}
		}
	})
	_, err := p.Do(t.Context(), c)
	others.Wait()
	if e := failed(t, err, true, false); !errors.Is(e, ErrTimeout) {
		t.Errorf("Do = %v, want %v", e, ErrTimeout)
	}
	start := time.Now()
	s.answered(p, "well")
	t.Logf("answered after %v", time.Since(start))
	if n := s.accepted.Load() - before; n != 1 {
		t.Errorf("%d new connections, want 1", n)
	}
}

// writesAndHangs is a connection whose writes arrive, and return when it is closed.
type writesAndHangs struct {
	net.Conn
	closed chan struct{}
	once   *sync.Once
}

func (c writesAndHangs) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	<-c.closed
	return n, err
}

func (c writesAndHangs) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A caller that has its replies, and writes for others or is not told that it has written,
// is back when its deadline has passed, also where no other call is open.
func TestAWriterThatHasItsRepliesIsNotHeldUpForEver(t *testing.T) {
	s := newServer(t)
	p := s.pool(1, wrapped(func(c net.Conn) net.Conn { return writesAndHangs{c, make(chan struct{}), new(sync.Once)} }))
	c := ask("hello")
	done := make(chan error, 1)
	go func() {
		_, err := p.Do(context.Background(), c)
		done <- err
	}()
	await.Until(t, "its reply has come", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.state == ended {
			c.Deadline = time.Now() // not before, however long the connection and the reply take
		}
		return c.state == ended
	})
	if err := await.Receive(t, "the caller is back", done); err != nil {
		t.Errorf("Do = %v, though its reply has come", err)
	}
	s.echoed(c.Reply, "hello")
}
