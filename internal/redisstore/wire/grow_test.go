package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

// While a connection is being dialled, nobody who waits for one fails because another dial did: what stands between a
// program and its server may refuse further connections while it lets the first ones through.
func TestADialThatFailsWhileAnotherIsUnderWay(t *testing.T) {
	s := newServer(t)
	dials, goesOn := make(chan struct{}, 100), make(chan struct{})
	p := s.pool(2, func(o *Options) {
		dial, first := o.Dial, make(chan struct{}, 1)
		first <- struct{}{}
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			select {
			case <-first:
				dials <- struct{}{}
				select {
				case <-goesOn:
				case <-ctx.Done(): // a wait of this test has failed
				}
				return dial(ctx)
			default:
				defer func() { dials <- struct{}{} }()
				return nil, errUnlucky
			}
		}
	})
	var calls []chan struct{}
	calling := func() {
		done := make(chan struct{})
		calls = append(calls, done)
		go func() { defer close(done); s.answered(p, "waits") }()
	}
	calling()
	await.Receive(t, "the first dial", dials)
	await.Until(t, "another dial has failed", func() bool {
		if len(dials) == 0 {
			calling() // it has another one begun, once the first has taken for long
		}
		return len(dials) > 0
	})
	await.Until(t, "the pool knows that", func() bool { return p.Dials() == 1 })
	close(goesOn)
	for _, done := range calls {
		await.Receive(t, "the reply", done)
	}
}

// dialsWhile returns a pool of two with a call in flight over its first connection, to a server that says nothing. A second connection is made, and its
// dial returns when goOn is called, with an error if it fails; n counts the dials.
func dialsWhile(t *testing.T, s *server, fails error) (p *Pool, called <-chan error, goOn func(), n *atomic.Int32) {
	t.Helper()
	made, goesOn := make(chan struct{}), make(chan struct{})
	n = new(atomic.Int32)
	p = s.pool(2, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			second := n.Add(1) == 2
			c, err := dial(ctx)
			if second {
				close(made)
				select {
				case <-goesOn:
				case <-ctx.Done(): // a wait of this test has failed
				}
				if fails != nil {
					_ = c.Close()
					return nil, fails
				}
			}
			return c, err
		}
	})
	s.answered(p, "the first connection")
	s.does(func(io.Writer, string) error { return nil })
	done := make(chan error, 1)
	go func() {
		_, err := p.Do(t.Context(), ask("a call"))
		done <- err
	}()
	await.Until(t, "the call is in flight", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.conns[0].inFlight.n == 1
	})
	p.mu.Lock()
	p.grow(p.conns[0], time.Now())
	p.dialBegan = time.Now().Add(time.Hour) // so none begins beside it, however late this machine is
	p.mu.Unlock()
	await.Receive(t, "a connection that is made", made)
	await.Until(t, "the server has it", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 2
	})
	return p, done, func() { close(goesOn) }, n
}

// A connection that is made when the server ends all of them has ended, too, and nobody sees it, or its set-up fails. The calls that
// were on the others are tried once more, and would fail once more over it.
func TestADialWhileAnotherConnectionEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		hung  bool
		fails error // the dial
	}{"at once": {}, "after it has hung": {hung: true}, "and so did the one that was set up": {fails: io.EOF}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			p, called, goOn, n := dialsWhile(t, s, tt.fails)
			if tt.hung {
				p.mu.Lock()
				p.doubt(time.Now(), net.ErrClosed) // as doubtOthers does
				p.mu.Unlock()
			}
			s.does(echo)
			s.cut()
			if err := await.Receive(t, "the call's end", called); err == nil {
				t.Error("there is a reply")
			}
			again := make(chan struct{})
			go func() {
				defer close(again)
				s.answered(p, "once more")
			}()
			await.Until(t, "it waits for a connection", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.waiting.n == 1
			})
			goOn()
			await.Receive(t, "the reply", again)
			if n := n.Load(); n < 3 { // on a slow machine one more begins beside the third
				t.Errorf("there were %d dials, want one more than two", n)
			}
		})
	}
}

// One that hangs says nothing about a connection that is made meanwhile.
func TestADialWhileAnotherConnectionHangs(t *testing.T) {
	s := newServer(t)
	p, called, goOn, n := dialsWhile(t, s, nil)
	p.mu.Lock()
	p.doubt(time.Now(), net.ErrClosed) // as doubtOthers does
	p.mu.Unlock()
	s.does(echo)
	goOn()
	s.answered(p, "over the new connection")
	if n, dials := n.Load(), p.Dials(); n != 2 || dials != 0 {
		t.Errorf("there were %d dials, and %d are under way, want 2 and none", n, dials)
	}
	s.cut()
	await.Receive(t, "the call's end", called)
}

// A dial during which another connection ended may have made one that has ended, too. It is made anew where no other connection is
// good; where none may be begun, it is taken as it is.
func TestADialDuringWhichAnotherConnectionEnded(t *testing.T) {
	const while = 50 * time.Millisecond // a reply is overdue, and the connection does not hang
	for name, tt := range map[string]struct {
		silent, since              time.Duration // the other connection, and a dial that failed
		fails                      error
		anew, dropped, takes, fail bool
	}{
		"the other connection is good":            {since: time.Hour, dropped: true},
		"the other one is overdue":                {silent: while, since: time.Hour, anew: true, dropped: true},
		"overdue, and a dial has failed just now": {silent: while, since: while, takes: true},
		"overdue, and this one failed":            {silent: while, since: time.Hour, fails: io.EOF, anew: true},
		"overdue, and this one failed as well":    {silent: while, since: while, fails: io.EOF, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			p := s.pool(2)
			s.answered(p, "the first connection")
			s.does(func(io.Writer, string) error { return nil })
			called := make(chan error, 1)
			go func() {
				_, err := p.Do(t.Context(), ask("a call"))
				called <- err
			}()
			await.Until(t, "the call is in flight", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.conns[0] != nil && p.conns[0].inFlight.n == 1
			})
			made, err := p.options.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer made.Close()
			if tt.fails != nil {
				_ = made.Close()
			}
			p.mu.Lock()
			now := time.Now()
			began := now.Add(-while)
			p.dials, p.dialBegan = append(p.dials, began), began.Add(-time.Hour)
			p.broke, p.dialFailed = now.Add(-while/2), now.Add(-tt.since)
			p.conns[0].heard, p.conns[0].arrived = now.Add(-tt.silent), now.Add(-tt.silent)
			p.dialled(made, tt.fails, p.generation, began, now)
			anew, takes, fail := len(p.dials) > 0, p.conns[1] != nil, p.dialFailed.Equal(now)
			p.mu.Unlock()
			if anew != tt.anew || takes != tt.takes || fail != tt.fail {
				t.Errorf("made anew: %t, taken: %t, noted as failed: %t, want %t, %t, %t", anew, takes, fail, tt.anew, tt.takes, tt.fail)
			}
			if tt.dropped {
				await.Until(t, "what was made is closed", func() bool { return errors.Is(made.SetDeadline(time.Time{}), net.ErrClosed) })
			}
			s.cut()
			await.Receive(t, "the call's end", called)
		})
	}
}

// A connection that the pool gives up itself has its writer find an end, which says nothing of the other connections.
func TestTheEndOfWhatWasGivenUpSaysNothing(t *testing.T) {
	s := newServer(t)
	p := s.pool(2)
	s.answered(p, "the first connection")
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.conns[0]
	k.fail(ErrStuck)
	k.broke(net.ErrClosed)
	if !p.broke.IsZero() || !p.doubted.IsZero() {
		t.Errorf("an end is known of since %v, and the others are doubted since %v", p.broke, p.doubted)
	}
}
