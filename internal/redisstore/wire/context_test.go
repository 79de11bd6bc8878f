package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/lockmw/kit/internal/test/await"
)

// A spent context panics in Value, and so context.Cause does, once it has ended.
type spent struct{ context.Context }

func (s spent) Value(key any) any {
	if s.Err() != nil {
		panic("spent")
	}
	return s.Context.Value(key)
}

// A context that panics when its call ends takes nobody along: others go on over the same pool.
func TestAContextThatPanics(t *testing.T) {
	for name, ends := range map[string]func(net.Conn, context.CancelFunc) net.Conn{
		"its connection breaks": func(c net.Conn, cancel context.CancelFunc) net.Conn { return refusing{c, cancel} },
		"it leaves":             func(c net.Conn, cancel context.CancelFunc) net.Conn { return leaving{c, cancel} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			p := s.pool(1, wrapped(func(c net.Conn) net.Conn {
				if ctx.Err() == nil {
					return ends(c, cancel)
				}
				return c
			}))
			func() {
				defer func() {
					if v := recover(); v != "spent" {
						t.Errorf("panic: %v", v)
					}
				}()
				_, err := p.Do(spent{ctx}, ask("a"))
				t.Errorf("Do = %v", err)
			}()
			others := make(chan struct{})
			go func() { defer close(others); s.answered(p, "b") }()
			await.Receive(t, "the reply to another call", others)
		})
	}
}

// leaving is a connection whose caller leaves when it has written.
type leaving struct {
	net.Conn
	leave func()
}

func (c leaving) Write(p []byte) (int, error) {
	defer c.leave()
	return c.Conn.Write(p)
}

// A tired context panics when it is asked for one thing, its Done or its Err, more than so many times.
type tired struct {
	context.Context
	of   string
	more *atomic.Int32
}

func (c tired) answers(what string) {
	if c.of == what && c.more.Add(-1) < 0 {
		panic("tired")
	}
}

func (c tired) Done() <-chan struct{} {
	c.answers("Done")
	return c.Context.Done()
}

func (c tired) Err() error {
	c.answers("Err")
	return c.Context.Err()
}

// A caller whose context panics when it is asked for its Done or its Err, at once or later, leaves nothing behind: not the mutex of
// the pool, nor a call without an owner which others wait for to read, nor one that is open.
func TestAContextThatPanicsAtAnyQuestion(t *testing.T) {
	for _, of := range []string{"Done", "Err"} {
		for times := range 5 {
			t.Run(fmt.Sprintf("%s, after %d times", of, times), func(t *testing.T) {
				for _, leaves := range []bool{false, true} {
					amongOthers(t, of, int32(times), leaves)
				}
			})
		}
	}
}

// amongOthers carries out a call under a tired context between two calls that are sound: behind one that reads, and before one that waits
// for it to read. leaves says that the context ends while its call waits.
func amongOthers(t *testing.T, of string, times int32, leaves bool) {
	t.Helper()
	s := newServer(t)
	p := s.pool(1)
	s.answered(p, "first")
	replies := make(chan struct{})
	s.does(func(w io.Writer, argument string) error { <-replies; return echo(w, argument) })
	sound := func(argument string) <-chan struct{} {
		over := make(chan struct{})
		go func() { defer close(over); s.answered(p, argument) }()
		return over
	}
	before := sound("before")
	await.Until(t, "the call before reads", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.conns[0].inFlight.n == 1 && !p.conns[0].reading.free()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	more := new(atomic.Int32)
	more.Store(times)
	bad := make(chan any, 1)
	go func() {
		defer func() { bad <- recover() }()
		_, _ = p.Do(tired{ctx, of, more}, ask("bad"))
	}()
	await.Until(t, "the call is in flight, or over", func() bool { return len(bad) > 0 || p.inFlight() == 2 })
	if leaves {
		cancel()
	}
	inFlight := p.inFlight()
	behind := sound("behind")
	await.Until(t, "the call behind is in flight", func() bool { return p.inFlight() == inFlight+1 })
	replies <- struct{}{}
	await.Receive(t, "the reply to the call before", before)
	close(replies)
	await.Receive(t, "the reply to the call behind", behind)
	if v := await.Receive(t, "the end of the call", bad); v != nil && v != "tired" {
		t.Errorf("panic: %v", v)
	}
	await.Until(t, "no call is open", func() bool { return p.Open() == 0 })
	if err := p.violated(); err != nil {
		t.Error(err)
	}
}

// A context that is done and has no Err breaks its contract. Its call is carried out, since nothing says why it should not be.
func TestAContextThatIsDoneWithoutAnErr(t *testing.T) {
	s := newServer(t)
	p := s.pool(1)
	for range 2 { // the first call waits for the connection
		c := ask("a")
		if reusable, err := p.Do(errless{t.Context()}, c); err != nil || !reusable {
			t.Fatalf("Do = %v, %v, want a reply", reusable, err)
		}
		s.echoed(c.Reply, "a")
	}
}

// An errless context is done and has no Err.
type errless struct{ context.Context }

func (errless) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
