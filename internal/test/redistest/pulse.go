package redistest

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/stalls"
)

// Pulse pings servers, each some time after its last answer, and tells the meter how long it
// took: long means that the machine kept the server, or this process, from its processor. A ping without
// an answer counts with silent, which is for tests that stop no server themselves, but not where nobody
// listens. stop ends it, after as long as a ping may take.
func Pulse(stood *stalls.Meter, every time.Duration, silent bool, servers ...*redis.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var pinging sync.WaitGroup
	for _, server := range servers {
		pinging.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				if err := server.Ping(ctx).Err(); err == nil || silent && !errors.Is(err, syscall.ECONNREFUSED) {
					stood.Add(stalls.Stall{Began: asked, Ended: time.Now()})
				}
				select {
				case <-ctx.Done():
				case <-time.After(every):
				}
			}
		})
	}
	return func() {
		cancel()
		pinging.Wait()
	}
}
