package checks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// heartbeats are the renewals of some leases, as an observer sees them.
type heartbeats struct {
	mu    sync.Mutex
	last  map[string]time.Time
	count map[string]int
	lost  int
	gaps  samples // from one renewal of a lease to the next
}

func newHeartbeats() *heartbeats {
	return &heartbeats{last: make(map[string]time.Time), count: make(map[string]int)}
}

func (h *heartbeats) observe(_ context.Context, e lockmw.Event) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Kind {
	case lockmw.EventRenewed:
		h.gaps.add(now.Sub(h.last[e.Key]))
		h.count[e.Key]++
		h.last[e.Key] = now
	case lockmw.EventAcquired:
		h.last[e.Key] = now
	case lockmw.EventLost:
		h.lost++
	default:
	}
}

// fewest is how often the lease was renewed that was renewed the least.
func (h *heartbeats) fewest(prefix string, n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	least := h.count[fmt.Sprint(prefix, 0)]
	for i := range n {
		least = min(least, h.count[fmt.Sprint(prefix, i)])
	}
	return least
}

// The application has all connections of its pool in use, and ours are not
// among them.
func TestBusyPoolDoesNotHoldUpRenewals(t *testing.T) {
	besideOthers(t)
	const held, conns, lasts = 100, 2, 3 * ttl
	ttl := time.Duration(record.Pick(3, 1)) * ttl // no stall ends a lease of the short slice
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	app := s.Client(t, func(o *redis.Options) {
		o.PoolSize, o.PoolTimeout, o.MaxRetries = conns, 50*time.Millisecond, -1
	})
	beats := newHeartbeats()
	l := testenv.Open(t, app, lockmw.WithObserver(beats.observe))
	ctx, cancel := context.WithCancel(context.Background())
	var blocked sync.WaitGroup
	defer blocked.Wait()
	defer cancel()
	for range conns {
		blocked.Go(func() {
			for ctx.Err() == nil {
				_ = app.BLPop(ctx, time.Second, prefix+"nothing").Err()
			}
		})
	}
	await.Within(t, patience, "the pool is exhausted", func() bool {
		return errors.Is(app.Ping(ctx).Err(), redis.ErrPoolTimeout)
	})
	leases := make([]*lockmw.Lease, held)
	forEach(t, held, held, func(i int) (err error) {
		leases[i], err = acquire(l, fmt.Sprint(prefix, i), lockmw.Policy{TTL: ttl, Wait: ttl})
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	turnedAway := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if errors.Is(app.Ping(ctx).Err(), redis.ErrPoolTimeout) {
			turnedAway++
		}
	}
	lost := 0
	for _, lease := range leases {
		if !lease.Valid() || lease.Context().Err() != nil {
			lost++
		}
	}
	forEach(t, held, held, func(i int) error { return release(leases[i]) })

	// A renewal is due at the earliest after nine tenths of a third of the TTL.
	due := ttl / 3 * 9 / 10
	late, limit := beats.gaps.quantile(0.99)-due, ttl/6
	if testing.Short() {
		limit = ttl / 2
	}
	record.Add(t, record.Row{
		Check: 15, Name: "the application's pool saturated",
		Goal: fmt.Sprintf("%d held locks of a TTL of %v for %v: lost 0; renewal p99 at most %v", held, ttl, lasts, limit.Round(time.Millisecond)),
		Figure: fmt.Sprintf("lost %d; %d renewals, p99 %s after they could be due at the earliest, longest %s",
			lost+beats.lost, beats.gaps.count(), short(late), short(beats.gaps.quantile(1)-due)),
		Met: lost == 0 && beats.lost == 0 && beats.gaps.count() >= held && late <= limit && turnedAway > 0 && !t.Failed(),
		Note: fmt.Sprintf("pool of %d blocked in BLPOP; %d PINGs beside it found no connection. A renewal is due 0.9 to 1.1 of TTL/3 after the last; "+
			"its time is counted from the earlier, so the figure has up to 133 ms of planned spread in it", conns, turnedAway),
	})
}

// What many held locks cost while nothing else happens.
func TestManyHeldLocksCostLittle(t *testing.T) {
	n, ttl := record.Pick(1000, 10_000), 30*time.Second
	limit, more, renewals := 0.10, 10, 3
	if testing.Short() {
		// The renewals are denser, and under the race detector: more batches of them are under way at a time.
		// One each takes as long as three of a third of that TTL, and no stall ends a lease.
		ttl, limit, more, renewals = 9*time.Second, 1, 25, 1
	}
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	beats := newHeartbeats()
	l := testenv.Open(t, s.Client(t), lockmw.WithObserver(beats.observe))
	forEach(t, 1, 1, func(int) error {
		return l.WithLock(context.Background(), prefix, lockmw.Policy{}, func(context.Context) error { return nil })
	})
	goroutines := runtime.NumGoroutine()
	leases := make([]*lockmw.Lease, n)
	before := heap()
	forEach(t, 32, n, func(i int) (err error) {
		leases[i], err = acquire(l, fmt.Sprint(prefix, i), lockmw.Policy{TTL: ttl, Wait: ttl})
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	each := (heap() - before) / int64(n)

	began, used := time.Now(), cpu(t)
	most := 0
	for beats.fewest(prefix, n) < renewals && time.Since(began) < 2*ttl {
		for range 10 {
			most = max(most, runtime.NumGoroutine())
			time.Sleep(50 * time.Millisecond)
		}
	}
	took := time.Since(began)
	share := (cpu(t) - used).Seconds() / took.Seconds()
	var lost atomic.Int64
	fewest := beats.fewest(prefix, n)
	for _, lease := range leases {
		if !lease.Valid() || lease.Context().Err() != nil {
			lost.Add(1)
		}
	}
	forEach(t, 32, n, func(i int) error { return release(leases[i]) })
	record.Add(t, record.Row{
		Check: 16, Name: fmt.Sprintf("%d held locks in one process, TTL %v", n, ttl),
		Goal: fmt.Sprintf("lost 0; goroutines at most the baseline + %d; CPU at most %.0f %% of a core", more, 100*limit),
		Figure: fmt.Sprintf("lost %d; goroutines %d + %d; CPU %.1f %% over %v; %d bytes a lease",
			lost.Load()+int64(beats.lost), goroutines, most-goroutines, 100*share, took.Round(time.Second), each),
		Met:  lost.Load() == 0 && beats.lost == 0 && most <= goroutines+more && share <= limit && fewest >= renewals && !t.Failed(),
		Note: fmt.Sprintf("each lease was renewed %d times or more; CPU is this process's, with its observer, without Redis; bytes include the observer's note of each key", fewest),
	})
}

// cpu is the time for which this process has computed.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
