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

// Beats says which pings of a Pulse count.
type Beats uint8

const (
	Answers  Beats = iota // those that were answered: for a test that stops servers on purpose
	Silences              // also those for which the time was over, unless nobody listens
)

// Pulse pings servers, each some time after its last answer, and tells the meter how long those took that
// count. Long means that the machine kept the server, or this process, from its processor. stop
// ends it, after as long as a ping may take.
func Pulse(stood *stalls.Meter, every time.Duration, counts Beats, servers ...*redis.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var pinging sync.WaitGroup
	for _, server := range servers {
		pinging.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				if err := server.Ping(ctx).Err(); err == nil || counts == Silences && !errors.Is(err, syscall.ECONNREFUSED) {
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
