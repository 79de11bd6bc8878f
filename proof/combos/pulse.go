package combos

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/stalls"
)

// pulse measures how busy the servers are: how long each takes to answer a ping that
// comes past the doors. On a busy machine a well server is silent.
type pulse struct {
	late    stalls.Meter // answers
	cancel  context.CancelFunc
	pinging sync.WaitGroup
}

func startPulse(servers []*redis.Client) *pulse {
	p := new(pulse)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	for _, server := range servers {
		p.pinging.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				_ = server.Ping(ctx).Err() // that it took long is what counts
				p.late.Add(stalls.Stall{Began: asked, Ended: time.Now()})
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
