package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

func TestCloseEndsWaitersAndLeases(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := newLocker(t, c)
		var leases []*lockmw.Lease
		for i := range 100 {
			leases = append(leases, mustAcquire(t, l, fmt.Sprint(key, i), lockmw.Policy{}))
		}
		waiting := make(chan error)
		go func() {
			_, err := l.Acquire(context.Background(), key+"0", lockmw.Policy{Wait: time.Minute})
			waiting <- err
		}()
		eventually(t, 5*time.Second, "queued", func() bool { return queued(t, c, key+"0") == 1 })

		closed := make(chan error)
		go func() { closed <- l.Close(context.Background()) }()
		if err := <-waiting; !errors.Is(err, lockmw.ErrClosed) {
			t.Errorf("the waiter got %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		for _, lease := range leases {
			if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrReleased) {
				t.Fatalf("cause = %v", cause)
			}
			mustRelease(t, lease) // done already
		}
		noKeys(t, c, key, 0)
		_, err := l.Acquire(context.Background(), key, lockmw.Policy{})
		var refusal *lockmw.AcquireError
		if !errors.Is(err, lockmw.ErrClosed) || !errors.As(err, &refusal) || refusal.RetryAfter != time.Second {
			t.Errorf("after Close: %v", err)
		}
		if err := c.Ping(context.Background()).Err(); err != nil {
			t.Errorf("the user's client: %v", err)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}
