package checks

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/lockmw/kit/proof/record"
)

// cancels is what the callers who leave are measured by.
type cancels struct {
	locker, other *lockmw.Locker // other has no proxy before it
	proxy         *faultproxy.Proxy
	direct        *redis.Client
	back          samples // from the cancel until Acquire has returned
	noise         samples // from the cancel until a goroutine that waits for it runs
	after         sync.WaitGroup
	errs          chan error
}

// A caller who leaves is back at once, whatever Redis is doing, and leaves nothing
// behind. A goroutine that only waits for the same context tells how much of
// the delay is the machine's.
func TestCancelledCallersLeave(t *testing.T) {
	random := seed(record.Seed(t))
	times := record.Pick(60, 500)
	limit := 20 * time.Millisecond
	if testing.Short() {
		limit = 500 * time.Millisecond // the race detector, on two cores that others use
	}
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	c := &cancels{proxy: faultproxy.Start(t, s.Addr()), direct: s.Client(t), other: testenv.Open(t, s.Client(t)), errs: make(chan error, times)}
	c.locker = testenv.Open(t, redistest.NewClient(t, c.proxy.Addr()))
	_, warm, err := c.locker.Acquire(context.Background(), prefix, lockmw.Policy{Wait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	warm.Release(context.Background())

	for i := range times {
		key := fmt.Sprint(prefix, i)
		way := c.whileHeld
		if i%2 == 1 {
			way = c.whileSlow
		}
		if err := way(key, random.upTo(2*i, 50*time.Millisecond), random.upTo(2*i+1, 30*time.Millisecond)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	c.after.Wait()
	close(c.errs)
	left := len(c.errs)
	for err := range c.errs {
		t.Error(err)
	}
	late := c.back.quantile(1)
	note := fmt.Sprintf("a goroutine that only waits for the same context: %s", c.noise.spread())
	if late > limit && c.noise.quantile(1) > limit {
		note += "; the machine itself is later than the goal"
	}
	record.Add(t, record.Row{
		Check: 10, Name: "ctx cancelled 0-50 ms into acquire",
		Goal:   fmt.Sprintf("%d: caller back within %v of the cancel; no key or queue entry older than 1.5 s", times, limit),
		Figure: fmt.Sprintf("%d; %s; left behind %d", c.back.count(), c.back.spread(), left),
		Met:    late <= limit && left == 0 && c.back.count() == times,
		Note:   note,
	})
}

// leave calls Acquire with a context that ends after a while.
func (c *cancels) leave(key string, after time.Duration) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	started, noticed := make(chan struct{}), make(chan time.Time, 1)
	go func() {
		close(started)
		<-ctx.Done()
		noticed <- time.Now()
	}()
	<-started
	cancelled := make(chan time.Time, 1)
	time.AfterFunc(after, func() {
		cancelled <- time.Now()
		cancel(nil)
	})
	policy := lockmw.Policy{TTL: ttl, Wait: patience}
	if testing.Short() {
		policy.TTL = patience // what is left does not end by itself while later looks for it
	}
	_, lease, err := c.locker.Acquire(ctx, key, policy)
	returned := time.Now()
	at := <-cancelled
	noise, back := (<-noticed).Sub(at), returned.Sub(at)
	if testing.Short() {
		back -= noise // the machine may have stood still for longer than the limit
	}
	c.noise.add(noise)
	c.back.add(max(back, 0))
	if err == nil { // it was in time
		return release(lease)
	}
	if silent(err) {
		return nil
	}
	if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
		return fmt.Errorf("acquire = %w, want ErrNotAcquired and context.Canceled", err)
	}
	return nil
}

// cleared is for how long later goes on looking. In the short slice the machine may stand still
// meanwhile; a queue that nobody asks for ends by itself later than that.
func cleared() time.Duration { return time.Duration(record.Pick(5, 0)) * time.Second }

// later looks after a second and a half at what is left.
func (c *cancels) later(look func() error) {
	c.after.Add(1)
	time.AfterFunc(1500*time.Millisecond, func() {
		defer c.after.Done()
		if err := look(); err != nil {
			c.errs <- err
		}
	})
}

// whileHeld: somebody else has the lock, and has it still when the caller has left.
func (c *cancels) whileHeld(key string, after, _ time.Duration) error {
	c.proxy.Delay(faultproxy.Both, 0)
	holder, err := acquire(c.other, key, lockmw.Policy{TTL: 30 * time.Second})
	if err != nil {
		return err
	}
	if err := c.leave(key, after); err != nil {
		return err
	}
	c.later(func() error {
		var left []string
		var err error
		if !comes(cleared(), func() bool {
			left, err = leftovers(c.direct, key)
			return err == nil && len(left) == 1 && left[0] == redisKey(key)
		}) {
			err = errors.Join(err, fmt.Errorf("beside the holder's there should be nothing: %q", left))
		}
		if released := release(holder); released != nil {
			err = errors.Join(err, released)
		}
		return errors.Join(err, comesFree(c.direct, key, cleared()))
	})
	return nil
}

// whileSlow: the lock is free, and the caller leaves while the question or the
// answer is on its way.
func (c *cancels) whileSlow(key string, after, way time.Duration) error {
	c.proxy.Delay(faultproxy.Both, way)
	if err := c.leave(key, after); err != nil {
		return err
	}
	c.later(func() error { return comesFree(c.direct, key, cleared()) })
	return nil
}

// Callers who leave do not shift the replies of those with whom they share a connection:
// each of those gets its own, so it has its lock if that was free and is refused if not.
func TestOthersGetTheirRepliesWhenCallersLeave(t *testing.T) {
	besideOthers(t)
	const callers = 60
	times := record.Pick(3, 50)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	proxy, other := faultproxy.Start(t, s.Addr()), testenv.Open(t, s.Client(t))
	locker := testenv.Open(t, redistest.NewClient(t, proxy.Addr()))
	if err := cycle(locker, prefix); err != nil { // now it knows the server's clock
		t.Fatal(err)
	}
	stood, began := stalls.During(t), time.Now() // of Redis and of the machine
	t.Cleanup(redistest.Pulse(stood, pulse, redistest.Silences, s.Client(t)))
	var answered, left, unheard, failed atomic.Int64
	for round := range times {
		ctx, cancel := context.WithCancel(context.Background())
		before := proxy.Commands()["SET"]
		var held []*lockmw.Lease
		for i := 0; i < callers; i += 2 { // every other lock is held
			lease, err := acquire(other, fmt.Sprint(prefix, round, "-", i), lockmw.Policy{TTL: patience})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, lease)
		}
		proxy.Stall(faultproxy.ToClient)
		var all, gone sync.WaitGroup
		for i := range callers {
			asking, who := context.Background(), &all
			if leaves := i%5 == 0; leaves {
				asking, who = ctx, &gone
			}
			who.Go(func() {
				_, lease, err := locker.Acquire(asking, fmt.Sprint(prefix, round, "-", i), lockmw.Policy{TTL: patience})
				was := err
				if err == nil {
					err = lease.Release(context.Background())
				}
				switch {
				case asking == ctx && errors.Is(was, context.Canceled):
					left.Add(1)
				case err == nil && i%2 == 1, i%2 == 0 && errors.Is(was, lockmw.ErrNotAcquired):
					answered.Add(1)
				case silent(was), silent(err) && i%2 == 1: // the lock was free, and Redis was not heard of its release
					unheard.Add(1)
				default:
					failed.Add(1)
					t.Errorf("%d: caller %d of a lock that is held (%v): granted %v, %v", round, i, i%2 == 0, was == nil, err)
				}
			})
		}
		// Most are in flight by then; others have no connection before the replies come.
		comes(200*time.Millisecond, func() bool { return proxy.Commands()["SET"] >= before+callers })
		cancel()
		gone.Wait()
		proxy.Heal()
		all.Wait()
		for _, lease := range held {
			if err := release(lease); err != nil {
				t.Error(err)
			}
		}
	}
	all := int64(times * callers)
	heard := unheard.Load() == 0 || stood.Longest(began, time.Now()) > 300*time.Millisecond
	record.Add(t, record.Row{
		Name:   "callers leave a connection that others share",
		Goal:   fmt.Sprintf("%d × %d callers, of whom some leave: each of the others gets its own answer", times, callers),
		Figure: fmt.Sprintf("%d answered, %d left, %d got another answer, %d none", answered.Load(), left.Load(), failed.Load(), unheard.Load()),
		Met:    failed.Load() == 0 && left.Load() > 0 && answered.Load()+left.Load()+unheard.Load() == all && heard,
	})
}
