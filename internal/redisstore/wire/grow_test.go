package wire

import (
	"context"
	"net"
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
