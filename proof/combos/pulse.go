package combos

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/stalls"
)

// pulse pings each server, past the proxies, 50 ms after its last answer. A slow answer means
// that the machine made the server look silent, and not its fault. A ping counts when it is
// answered.
type pulse struct {
	slow    stalls.Meter // pings
	cancel  context.CancelFunc
	pinging sync.WaitGroup
}

// startPulse begins the pings; the servers' clients end a ping after a second at the latest
// (package admin), so stop takes no longer.
func startPulse(servers []*redis.Client) *pulse {
	p := new(pulse)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	for _, server := range servers {
		p.pinging.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				_ = server.Ping(ctx).Err() // that it took long is what counts
				p.slow.Add(stalls.Stall{Began: asked, Ended: time.Now()})
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	return p
}

func (p *pulse) stop() {
	p.cancel()
	p.pinging.Wait()
}
