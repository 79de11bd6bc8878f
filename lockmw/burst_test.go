package lockmw_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Callers who give up at the same moment, while Redis stands still, leave nothing
// behind, also where Redis is far away. The test is not parallel: it keeps the
// machine busy.
func TestABurstOfCallersWhoGiveUpLeavesNothing(t *testing.T) {
	slow.Test(t)
	const pause = 300 * time.Millisecond
	for name, b := range map[string]struct {
		calls    int
		distance time.Duration
		giveUp   func() (context.Context, context.CancelFunc)
	}{
		"8,000 that are cancelled": {8000, 40 * time.Millisecond, func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(pause/2, cancel)
			return ctx, cancel
		}},
		"3,000 deadlines": {3000, 0, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), pause/2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Real(t)
			c := s.Client(t)
			client, proxy := proxied(t, s)
			l := testenv.Open(t, client)
			var warm sync.WaitGroup
			for i := range 64 { // all connections are there, or most would wait for one and not be sent
				warm.Go(func() {
					for range 20 {
						mustRelease(t, mustAcquire(t, l, fmt.Sprint("first ", i), lockmw.Policy{}))
					}
				})
			}
			warm.Wait()
			proxy.Delay(faultproxy.Both, b.distance/2)
			before, few := grants(t, c), b.calls/100
			var back time.Time
			burst := func(try int) {
				if err := c.ClientPause(context.Background(), pause).Err(); err != nil {
					t.Fatal(err)
				}
				back = time.Now().Add(pause)
				ctx, cancel := b.giveUp()
				defer cancel()
				var gone sync.WaitGroup
				for i := range b.calls {
					gone.Go(func() {
						if _, lease, err := l.Acquire(ctx, fmt.Sprint(try, " ", i), lockmw.Policy{TTL: time.Minute}); err == nil {
							_ = lease.Release(ctx)
						}
					})
				}
				gone.Wait()
				if now := time.Now(); now.After(back) { // a busy machine takes longer than the pause to have all give up
					back = now
				}
			}
			// On a busy machine a burst may give up before much of it was sent.
			const tries = 10
			for try := 1; grants(t, c)-before <= few; try++ {
				if try > tries {
					t.Fatalf("Redis granted %d locks in %d bursts of %d calls, want more than %d", grants(t, c)-before, tries, b.calls, few)
				}
				burst(try)
			}
			nothingLeft(t, c, back)
			t.Logf("Redis granted %d locks to bursts of %d", grants(t, c)-before, b.calls)
		})
	}
}

// grants returns how many locks the server has granted since it began.
func grants(tb testing.TB, c *redis.Client) (n int) {
	tb.Helper()
	info, err := c.Info(context.Background(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "cmdstat_set:calls=")
	if _, err := fmt.Sscanf(after, "%d", &n); after != "" && err != nil {
		tb.Fatal(err)
	}
	return n
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
	await.Within(tb, time.Until(since.Add(within)), "no key is left", func() bool { return locks(tb, c) == 0 })
	tb.Logf("nothing was left after %v", time.Since(since).Round(time.Millisecond))
}
