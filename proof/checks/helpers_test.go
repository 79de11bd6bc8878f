package checks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const (
	root     = "../.." // of the repository
	ttl      = 2 * time.Second
	patience = time.Minute // longer than anything lasts that works
)

// seed is where a test's random choices come from.
type seed uint64

// upTo returns a duration below most, the same for the same i.
func (s seed) upTo(i int, most time.Duration) time.Duration {
	return time.Duration(rand.New(rand.NewPCG(uint64(s), uint64(i))).Int64N(int64(most)))
}

// behindProxies returns n Lockers, each with a proxy of its own.
func behindProxies(t *testing.T, s redistest.Backend, n int) ([]*faultproxy.Proxy, []*lockmw.Locker) {
	t.Helper()
	proxies, lockers := make([]*faultproxy.Proxy, n), make([]*lockmw.Locker, n)
	for i := range n {
		proxies[i] = faultproxy.Start(t, s.Addr())
		lockers[i] = testenv.Open(t, redistest.NewClient(t, proxies[i].Addr()))
	}
	return proxies, lockers
}

// silent says that err came because Redis, or this process, stood still for a second, as happens
// in the short slice, on a machine that is busy with other tests. What a server answers is
// something else.
func silent(err error) bool {
	return testing.Short() && errors.Is(err, lockmw.ErrUnavailable) && !strings.Contains(err.Error(), "NOSCRIPT")
}

// acquire takes a lock, and asks again where the answer was silent.
func acquire(l *lockmw.Locker, key string, p lockmw.Policy) (*lockmw.Lease, error) {
	return testenv.AskedAgain(context.Background(), l, key, p, func(err error, _ time.Time) bool { return silent(err) })
}

// release gives a lock back. Where the answer was silent, the lock comes free all the same, at
// the end of its TTL at the latest.
func release(lease *lockmw.Lease) error {
	if err := lease.Release(context.Background()); !silent(err) {
		return err
	}
	return nil
}

// besideOthers has a test that mostly waits run beside others in the short slice.
// For the report each has the machine for itself.
func besideOthers(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Parallel()
	}
}

// pulse is how often amongOthers asks Redis for a sign of life.
const pulse = 20 * time.Millisecond

// amongOthers returns the limit of a test that runs besideOthers, and a meter of what this
// process and Redis stood still: the test leaves the longest stall out of each time that it
// measures. More than one is no excuse. In the short slice the limit has 300 ms more, because under
// the race detector a goroutine may wait so long for its turn without one stall that a meter
// sees; it is still far from a second, after which a process finds out by itself what it was
// not told. For the report the limit is as it was, and the meter measures nothing.
func amongOthers(t *testing.T, s redistest.Backend, limit time.Duration) (time.Duration, *stalls.Meter) {
	t.Helper()
	if !testing.Short() {
		return limit, new(stalls.Meter)
	}
	client, stood := s.Client(t), stalls.During(t)
	t.Cleanup(redistest.Pulse(stood, pulse, redistest.Silences, client))
	return limit + 300*time.Millisecond, stood
}

// forEach calls f for 0 to n-1, on so many goroutines, and reports the errors.
// After many of them it gives up: what is broken may take its time each time.
func forEach(t *testing.T, workers, n int, f func(i int) error) {
	t.Helper()
	var next, failures atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failures.Load() < 10; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failures.Add(1)
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if failed := failures.Load(); failed > 0 {
		t.Errorf("%d of %d failed", failed, n)
	}
}

// meanwhile calls f every so often until stop is called, which returns how
// often it was.
func meanwhile(every time.Duration, f func()) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	times := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f()
				times++
			}
		}
	})
	return sync.OnceValue(func() int {
		cancel()
		wg.Wait()
		return times
	})
}

// comes reports whether a state comes within a time.
func comes(within time.Duration, state func() bool) bool {
	for end := time.Now().Add(within); !state(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// samples are durations that several goroutines measure.
type samples struct {
	mu     sync.Mutex
	values []time.Duration
}

func (s *samples) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = append(s.values, d)
}

// quantile returns the value that a share of q does not exceed: 0 the
// smallest, 1 the largest.
func (s *samples) quantile(q float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.values) == 0 {
		return 0
	}
	slices.Sort(s.values)
	return s.values[min(int(q*float64(len(s.values))), len(s.values)-1)]
}

func (s *samples) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

// spread is a figure for the report.
func (s *samples) spread() string {
	return fmt.Sprintf("p50 %s, p99 %s, longest %s", short(s.quantile(0.5)), short(s.quantile(0.99)), short(s.quantile(1)))
}

// short leaves the digits that mean something.
func short(d time.Duration) string {
	if d > 100*time.Millisecond || d < -100*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// redisKey is where the lock of a key lies.
func redisKey(key string) string { return "lock:{" + key + "}" }

// leftovers returns the Redis keys of a lock. The fence of one that was given
// back is none of them: it may stay for a second, and blocks nobody.
func leftovers(c *redis.Client, key string) ([]string, error) {
	var left []string
	for _, suffix := range []string{"", ":queue", ":alive", ":holders"} {
		n, err := c.Exists(context.Background(), redisKey(key)+suffix).Result()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			left = append(left, redisKey(key)+suffix)
		}
	}
	return left, nil
}

// comesFree waits until nothing of a lock is left.
func comesFree(c *redis.Client, key string, within time.Duration) error {
	var left []string
	var err error
	if !comes(within, func() bool {
		left, err = leftovers(c, key)
		return err == nil && len(left) == 0
	}) {
		return errors.Join(err, fmt.Errorf("after %v there is still %q", within, left))
	}
	return nil
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
