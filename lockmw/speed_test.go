package lockmw_test

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/lockmw"
)

// lockers are what a lock and its release are measured over: a Redis, and a
// store that grants everything at once.
var lockers = map[string]func(testing.TB) *lockmw.Locker{
	"redis": func(tb testing.TB) *lockmw.Locker {
		client := redistest.Shared(tb).Client(tb, func(o *redis.Options) { o.PoolSize = 64 })
		l, err := lockmw.New(client, lockmw.WithNamespace(redistest.Prefix(tb)))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = l.Close(context.Background()) })
		return l
	},
	"stub": doortest.Instant,
}

// speeds are the policies, and how many allocations a lock may cost over Redis
// and over the stub.
var speeds = map[string]struct {
	policy lockmw.Policy
	allocs map[string]float64
}{
	"one attempt": {lockmw.Policy{TTL: 30 * time.Second}, map[string]float64{"redis": 13, "stub": 9}},
	"waits":       {lockmw.Policy{TTL: 30 * time.Second, Retries: lockmw.Forever}, map[string]float64{"redis": 14, "stub": 10}},
}

// turn returns a function that takes the lock and gives it back, for somebody
// who may stop waiting.
func turn(tb testing.TB, l *lockmw.Locker, p lockmw.Policy) func() {
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	return func() {
		_, lease, err := l.Acquire(ctx, "k", p)
		if err == nil {
			err = lease.Release(ctx)
		}
		if err != nil && !unanswered(err, time.Now().Add(-time.Second)) { // the clock is not read in what is measured
			tb.Error(err)
		}
	}
}

func TestALockCostsFewAllocations(t *testing.T) {
	slow.Test(t) // make check builds without inlining, which costs allocations; make budgets without the race detector
	for name, s := range speeds {
		for over, open := range lockers {
			once := turn(t, open(t), s.policy)
			got := testing.AllocsPerRun(500, once)
			for range 4 { // pools lose things now and then
				got = min(got, testing.AllocsPerRun(500, once))
			}
			t.Logf("%s, %s: %v allocations", name, over, got)
			if most := s.allocs[over] + poolsLoseAllocs; got > most {
				t.Errorf("%s over %s: %v allocations, want at most %v", name, over, got, most)
			}
		}
	}
}

// The values of a turn are few and small. A claim, which is the largest, is not one of them: a store that kept hold of it would have it
// allocated in each call, and cost the hand-over within a process a fifth of its turns.
func TestTheAllocationsOfALockAreSmall(t *testing.T) {
	slow.Test(t)
	once := turn(t, doortest.Instant(t), lockmw.Policy{TTL: 30 * time.Second})
	const turns, most = 500, 1300 // bytes; a claim alone has some 900
	wantBytes(t, turns, most, func() {
		for range turns {
			once()
		}
	})
}

// Nor are those of a lock that passes on within the process. An event that nobody is told of is not made, and who waits uses the timer
// of one who has waited.
func TestTheAllocationsOfALockThatPassesOnAreSmall(t *testing.T) {
	slow.Test(t)
	l := lockers["redis"](t)
	const callers, turns, most = 8, 800, 800 + 30*poolsLoseAllocs // bytes; an event and a timer are 240 each
	wantBytes(t, turns, most, func() {
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range turns / callers {
					if err := l.WithLock(t.Context(), "one", lockmw.Policy{Retries: lockmw.Forever}, func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// wantBytes wants that run, which takes turns, allocates at most so many bytes in each. What else the process does meanwhile, and what pools
// lose, is not always there. So run fills the pools first, and of five more the least counts.
func wantBytes(t *testing.T, turns, most uint64, run func()) {
	t.Helper()
	run()
	least := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run()
		runtime.ReadMemStats(&after)
		least = min(least, (after.TotalAlloc-before.TotalAlloc)/turns)
	}
	t.Logf("%d bytes", least)
	if least > most {
		t.Errorf("a turn allocates %d bytes, want at most %d", least, most)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	for name, s := range speeds {
		for over, open := range lockers {
			b.Run(name+"/"+over, func(b *testing.B) {
				run := turn(b, open(b), s.policy)
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
			})
		}
	}
}

// BenchmarkWatchdog renews 10,000 leases in each turn.
func BenchmarkWatchdog(b *testing.B) {
	const leases = 10_000
	for over, open := range lockers {
		b.Run(over, func(b *testing.B) {
			l := open(b)
			var held []*lockmw.Lease
			for i := range leases {
				_, lease, err := l.Acquire(context.Background(), strconv.Itoa(i), lockmw.Policy{TTL: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				held = append(held, lease)
			}
			b.ReportAllocs()
			for b.Loop() {
				lockmw.RenewAll(l)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/leases, "ns/lease")
			for _, lease := range held {
				if err := lease.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
