package lockmw_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/faultproxy"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/lockmw"
)

// The tests of bursts are not parallel: they keep the machine busy.

// A burst of callers who give up at the same moment leaves nothing behind, also
// where Redis is far away.
func TestABurstOfCancelledCallsLeavesNothing(t *testing.T) {
	const calls = 8000
	s := redistest.Real(t)
	client, proxy := proxied(t, s)
	l := newLocker(t, client)
	mustRelease(t, mustAcquire(t, l, "first", lockmw.Policy{}))
	proxy.Delay(faultproxy.Both, 20*time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var gone sync.WaitGroup
	for i := range calls {
		gone.Go(func() {
			if lease, err := l.Acquire(ctx, fmt.Sprint(i), lockmw.Policy{TTL: time.Minute, Wait: time.Minute}); err == nil {
				<-ctx.Done()
				_ = lease.Release(ctx)
			}
		})
	}
	eventually(t, 30*time.Second, "Redis has granted locks", func() bool { return locks(t, s.Client(t)) > calls/10 })
	at := time.Now()
	cancel()
	gone.Wait()
	t.Logf("all were back after %v", time.Since(at).Round(time.Millisecond))
	nothingLeft(t, s.Client(t), at)
}

// Deadlines that pass while Redis stands still leave nothing behind.
func TestDeadlinesInAPauseLeaveNothing(t *testing.T) {
	const calls, pause = 3000, 300 * time.Millisecond
	s := redistest.Real(t)
	c := s.Client(t)
	l := newLocker(t, s.Client(t))
	mustRelease(t, mustAcquire(t, l, "first", lockmw.Policy{}))
	if err := c.ClientPause(context.Background(), pause).Err(); err != nil {
		t.Fatal(err)
	}
	back := time.Now().Add(pause)
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(pause/2))
	defer cancel()
	var gone sync.WaitGroup
	for i := range calls {
		gone.Go(func() {
			if lease, err := l.Acquire(ctx, fmt.Sprint(i), lockmw.Policy{TTL: time.Minute}); err == nil {
				<-ctx.Done()
				_ = lease.Release(ctx)
			}
		})
	}
	gone.Wait()
	nothingLeft(t, c, back)
}

// locks returns how many keys there are.
func locks(tb testing.TB, c *redis.Client) int64 {
	tb.Helper()
	n, err := c.DBSize(context.Background()).Result()
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// nothingLeft fails the test if Redis, which answers since a moment, has any key
// some seconds later.
func nothingLeft(tb testing.TB, c *redis.Client, since time.Time) {
	tb.Helper()
	const within = 10 * time.Second // 2 s on a machine that is not busy; TTLs are a minute
	eventually(tb, time.Until(since.Add(within)), "no key is left", func() bool { return locks(tb, c) == 0 })
	tb.Logf("nothing was left after %v", time.Since(since).Round(time.Millisecond))
}
