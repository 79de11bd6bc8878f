package wire

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

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
				<-goesOn
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

// A connection that is made when the server ends all of them has ended, too, and nobody sees it. The calls that were on the others
// are tried once more, and would fail once more over it.
func TestADialWhileAnotherConnectionEnds(t *testing.T) {
	s := newServer(t)
	made, goesOn := make(chan struct{}), make(chan struct{})
	n := 0 // of dials; they begin one after the other
	p := s.pool(2, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			n++
			second := n == 2
			c, err := dial(ctx)
			if second {
				close(made)
				<-goesOn
			}
			return c, err
		}
	})
	s.answered(p, "the first connection")
	silent := make(chan struct{})
	s.does(func(io.Writer, string) error { <-silent; return io.EOF })
	var calls sync.WaitGroup
	for range 2 { // the first keeps the connection from being idle, and the second has another one dialled
		calls.Go(func() {
			if _, err := p.Do(t.Context(), ask("a call")); err == nil {
				t.Error("there is a reply")
			}
		})
	}
	await.Receive(t, "a connection that is made", made)
	await.Until(t, "the server has it", func() bool { return s.accepted.Load() == 2 })
	s.does(echo)
	s.cut()
	close(silent)
	calls.Wait()
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
	close(goesOn)
	await.Receive(t, "the reply", again)
}
