package engines

import (
	"context"
	"sync"
	"time"
)

// watched is a rival's lock with a loop that renews it: what libraries without a
// watchdog of their own tell their users to write.
type watched struct {
	ctx     context.Context
	cancel  context.CancelFunc
	stopped sync.WaitGroup
	until   func() time.Time // nil: it does not say
	release func(context.Context) error
}

// watch renews every third of the TTL until a renewal fails.
func watch(ctx context.Context, ttl time.Duration, renew func(context.Context) error) *watched {
	w := &watched{}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.stopped.Go(func() {
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-w.ctx.Done():
				return
			case <-tick.C:
				if renew(w.ctx) != nil {
					w.cancel()
					return
				}
			}
		}
	})
	return w
}

func (w *watched) Context() context.Context { return w.ctx }

func (w *watched) ValidUntil() time.Time {
	if w.until == nil {
		return time.Time{}
	}
	return w.until()
}

func (*watched) Fence() int64 { return 0 }

func (w *watched) Release(ctx context.Context) error {
	w.cancel()
	w.stopped.Wait()
	return w.release(ctx)
}
