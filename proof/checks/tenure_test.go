package checks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/record"
)

// A crowd is goroutines of one Locker that take turns on one key until it disperses: the
// lock passes from one to the next without Redis.
type crowd struct {
	number atomic.Int64 // of turns that have begun
	local  atomic.Int64 // of those whose fence follows the one before: Redis was not asked
	fence  atomic.Int64 // the highest
	fell   atomic.Int64 // fences that were not higher than all before
	inside *atomic.Int64
	keeps  atomic.Pointer[atomic.Int64] // not nil: whoever is inside stays until the lease's context ends, and notes there when (Unix ns)
	rests  atomic.Pointer[rest]         // not nil: whoever is inside stays as long as it says
	joined bool                         // nobody leaves before another one waits, so that the lock is never free

	stop context.CancelFunc
	all  sync.WaitGroup
	mu   sync.Mutex
	errs []error
	past []turn    // since forget
	from time.Time // the last turn that Redis gave began
	asks bool      // and that was the last one
}

// A rest is for how long whoever is inside stays, also if the lock is lost.
type rest struct {
	begun        sync.Once
	inside, over chan struct{} // closed: somebody stays; he may go
}

func newRest() *rest { return &rest{inside: make(chan struct{}), over: make(chan struct{})} }

// turn is one turn on a lock.
type turn struct{ asked, began, ended time.Time }

// gather has n goroutines take turns of so long on key. inside counts who is inside; others
// may share it.
func gather(l *lockmw.Locker, key string, n int, p lockmw.Policy, hold time.Duration, inside *atomic.Int64) *crowd {
	c := &crowd{inside: inside}
	c.begin(l, key, n, p, hold)
	return c
}

// begin is gather for a crowd that is there.
func (c *crowd) begin(l *lockmw.Locker, key string, n int, p lockmw.Policy, hold time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for range n {
		c.all.Go(func() {
			for ctx.Err() == nil {
				if err := c.turn(ctx, l, key, p, hold); err != nil && ctx.Err() == nil {
					c.mu.Lock()
					c.errs = append(c.errs, err)
					c.mu.Unlock()
					return
				}
			}
		})
	}
}

func (c *crowd) turn(ctx context.Context, l *lockmw.Locker, key string, p lockmw.Policy, hold time.Duration) error {
	one := turn{asked: time.Now()}
	under, lease, err := l.Acquire(ctx, key, p)
	if silent(err) { // the next turn asks again
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	if err != nil {
		return err
	}
	one.began = time.Now()
	err = c.enter(lease.Fence(), one.began)
	if hold > 0 {
		time.Sleep(hold)
	}
	if ended := c.keeps.Load(); ended != nil {
		<-under.Done()
		ended.Store(time.Now().UnixNano())
	}
	if c.joined {
		comes(patience, func() bool { return l.Stats().Names[p.Name].Waiting > 0 || ctx.Err() != nil })
	}
	if r := c.rests.Load(); r != nil {
		r.begun.Do(func() { close(r.inside) })
		<-r.over
	}
	one.ended = time.Now()
	c.inside.Add(-1)
	if hold > 0 {
		c.mu.Lock()
		c.past = append(c.past, one)
		c.mu.Unlock()
	}
	return errors.Join(err, release(lease))
}

func (c *crowd) enter(fence int64, at time.Time) (err error) {
	if n := c.inside.Add(1); n != 1 {
		err = fmt.Errorf("%d are inside", n)
	}
	c.number.Add(1)
	last := c.fence.Load()
	for fence > last && !c.fence.CompareAndSwap(last, fence) {
		last = c.fence.Load()
	}
	follows := fence == last+1
	if follows {
		c.local.Add(1)
	}
	if fence <= last {
		c.fell.Add(1)
		err = errors.Join(err, fmt.Errorf("fence %d after %d", fence, last))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = !follows
	if c.asks {
		c.from = at
	}
	return err
}

// age is for how long Redis was not asked, or 0 if the last turn was its grant.
func (c *crowd) age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks {
		return 0
	}
	return time.Since(c.from)
}

// forget forgets the turns that are over.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.past = c.past[:0]
}

// leaves is when the last of those ended who came before asked and had their turn before
// began; asked, if there is none.
func (c *crowd) leaves(asked, began time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := asked
	for _, one := range c.past {
		if one.asked.Before(asked) && one.began.Before(began) && one.ended.After(last) {
			last = one.ended
		}
	}
	return last
}

// mean is how long a turn lasts.
func (c *crowd) mean() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum time.Duration
	for _, one := range c.past {
		sum += one.ended.Sub(one.began)
	}
	return sum / time.Duration(max(len(c.past), 1))
}

// passes waits until the lock passes on within the process.
func (c *crowd) passes(t *testing.T) {
	t.Helper()
	from := c.local.Load()
	broken := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.errs) > 0
	}
	await.Within(t, patience, "the lock passes on within the process", func() bool { return c.local.Load() > from+10 || broken() })
	if broken() {
		t.Fatal(c.disperse())
	}
}

// disperse ends the turns, waits for the last one, and returns what went wrong.
func (c *crowd) disperse() error {
	c.stop()
	c.all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

// Whoever has a lock next has a higher fence than all who had it before, also those of
// whom Redis did not know: where the lock had been taken by force a moment before, where
// its holder was cut off in the middle of a tenure, and where both happened.
func TestFencesGrowBehindATenure(t *testing.T) {
	besideOthers(t)
	times := record.Pick(3, 30)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	short := lockmw.Policy{TTL: 300 * time.Millisecond, Wait: patience}
	long := short
	if testing.Short() {
		long.TTL = ttl // a stall does not end the turns that must not fail
	}
	grew := 0
	for i, what := range []string{"forced", "cut off", "forced, then cut off"} {
		for j := range times {
			proxies, lockers := behindProxies(t, s, 1)
			other := testenv.Open(t, s.Client(t))
			key := fmt.Sprint(prefix, i, "-", j)
			forces := func() {
				if err := admin.Force(other, key); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if i == 2 { // the fence that Redis gives out next is ahead of its clock
				lease, err := acquire(lockers[0], key, short)
				if err != nil {
					t.Fatal(err)
				}
				forces()
				_ = lease.Release(context.Background()) // lost
			}
			policy := long
			if i == 2 {
				policy = short // Redis's clock does not come up to the fences before it ends
			}
			c := gather(lockers[0], key, 4, policy, 0, new(atomic.Int64))
			if i == 2 {
				time.Sleep(50 * time.Millisecond) // the turns of the first moments are those in question
			} else {
				c.passes(t)
			}
			if i > 0 {
				proxies[0].BlackHole(faultproxy.Both)
			} else {
				forces()
			}
			c.stop()
			next, err := acquire(other, key, lockmw.Policy{TTL: patience, Wait: patience})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			last := c.fence.Load()
			if next.Fence() > last {
				grew++
			} else {
				t.Errorf("%s: fence %d after %d, %d turns", what, next.Fence(), last, c.number.Load())
			}
			if err := release(next); err != nil {
				t.Error(err)
			}
			proxies[0].Heal()
			proxies[0].Cut()
			_ = c.disperse() // those who lost the lock, and those who were cut off
		}
	}
	record.Add(t, record.Row{
		Check: 29, Name: "the fence behind a lock that passes on within a process",
		Goal:   fmt.Sprintf("%d of %d are higher: after a release by force, a partition, and both within a second", 3*times, 3*times),
		Figure: fmt.Sprintf("%d of %d", grew, 3*times),
		Met:    !t.Failed() && grew == 3*times,
	})
}
