package lockmw_test

import (
	"context"
	"errors"
	"runtime"
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

// freeAfter waits until the lock's key is gone and returns when that was.
func freeAfter(t *testing.T, c *redis.Client, key string) time.Time {
	t.Helper()
	await.Within(t, 20*time.Second, "the lock is free", func() bool {
		return c.Exists(context.Background(), "lock:{"+key+"}").Val() == 0
	})
	return time.Now()
}

const (
	slack     = 700 * time.Millisecond
	busySlack = 3 * time.Second // of a machine that stands still now and then; a TTL is longer
)

func TestMinHoldOutlastsAnEarlyRelease(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	for _, p := range []lockmw.Policy{{}, {Mode: lockmw.Shared}, {Permits: 1}, {TTL: 150 * time.Millisecond}} {
		each(t, func(t *testing.T, c *redis.Client, key string) {
			l, other := testenv.Open(t, c), testenv.Open(t, c)
			p.MinHold = 200 * time.Millisecond
			before := time.Now()
			lease := mustAcquire(t, l, key, p)
			acquired := time.Now()
			mustRelease(t, lease)
			mustRelease(t, lease) // safe to repeat
			_, next, err := other.Acquire(context.Background(), key, lockmw.Policy{Wait: 20 * time.Second})
			got := time.Now()
			if err != nil {
				t.Fatal(err)
			}
			if early := p.MinHold - got.Sub(before); early > 0 {
				t.Errorf("%s: another had the lock %v before MinHold was over", name(p), early)
			}
			if late := got.Sub(acquired) - p.MinHold; late > busySlack {
				t.Errorf("%s: another had the lock %v after MinHold was over", name(p), late)
			}
			mustRelease(t, next)
			noKeys(t, c, key, 2*time.Second)
		})
	}
}

func TestMinHoldIsNotAddedToALongHold(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		lease := mustAcquire(t, l, key, lockmw.Policy{MinHold: 20 * time.Millisecond})
		time.Sleep(30 * time.Millisecond) // the work
		mustRelease(t, lease)
		noKeys(t, c, key, 0)
	})
}

// A holder that crashes cannot be told from one that is cut off.
func TestMinHoldOutlastsACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c := s.Client(t)
		p := lockmw.Policy{TTL: 400 * time.Millisecond, MinHold: 1200 * time.Millisecond}
		for _, crashAfter := range []time.Duration{0, 700 * time.Millisecond} {
			key := redistest.Prefix(t)
			client, proxy := proxied(t, s)
			l := testenv.Open(t, client)
			before := time.Now()
			mustAcquire(t, l, key, p)
			acquired := time.Now()
			time.Sleep(crashAfter) // some renewals came through
			proxy.BlackHole(faultproxy.Both)
			free := freeAfter(t, c, key)
			t.Logf("crashed %v after it had the lock: free after %v", crashAfter, free.Sub(acquired))
			if early := p.MinHold - free.Sub(before); early > 0 {
				t.Errorf("the lock was free %v before MinHold was over", early)
			}
			if late := free.Sub(acquired) - p.MinHold - p.TTL; late > slack {
				t.Errorf("the lock was free %v after MinHold and a TTL", late)
			}
		}
	})
}

// A waiter that crashes at the moment in which it is handed the lock.
func TestMinHoldOutlastsAHandOverToACrashedWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		holder := mustAcquire(t, other, key, lockmw.Policy{})
		p := lockmw.Policy{TTL: 500 * time.Millisecond, MinHold: 2500 * time.Millisecond, Wait: time.Minute}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, lease, err := l.Acquire(ctx, key, p); err == nil {
				_ = lease.Release(context.Background())
			}
		}()
		await.Within(t, 10*time.Second, "it waits", func() bool { return queued(t, c, key) == 1 })
		proxy.BlackHole(faultproxy.ToServer) // it hears, and can do nothing
		before := time.Now()
		mustRelease(t, holder)
		after := time.Now()
		free := freeAfter(t, c, key)
		cancel()
		<-ended
		t.Logf("handed over to one that could do nothing: free after %v", free.Sub(after))
		if early := p.MinHold - free.Sub(before); early > 0 {
			t.Errorf("the lock was free %v before MinHold was over", early)
		}
		if late := free.Sub(after) - p.MinHold - p.TTL; late > slack {
			t.Errorf("the lock was free %v after MinHold and a TTL", late)
		}
	})
}

func TestMinHoldCountsFromAHandOver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		holder := mustAcquire(t, other, key, lockmw.Policy{})
		p := lockmw.Policy{MinHold: 600 * time.Millisecond, Wait: time.Minute}
		got := make(chan error, 1)
		go func() {
			_, lease, err := l.Acquire(context.Background(), key, p)
			if err == nil {
				err = lease.Release(context.Background())
			}
			got <- err
		}()
		await.Within(t, 10*time.Second, "it waits", func() bool { return queued(t, c, key) == 1 })
		before := time.Now()
		mustRelease(t, holder)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		free := freeAfter(t, c, key)
		if early := p.MinHold - free.Sub(before); early > 0 {
			t.Errorf("the lock was free %v before MinHold was over", early)
		}
		if late := free.Sub(after) - p.MinHold; late > busySlack {
			t.Errorf("the lock was free %v after MinHold", late)
		}
		noKeys(t, c, key, 2*time.Second)
	})
}

// The message about a grant may come after the lease has ended. It must not
// free a key that stays taken.
func TestLateMessageDoesNotCutMinHoldShort(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		ctx := context.Background()
		l := testenv.Open(t, c)
		lock := "lock:{" + key + "}"
		lease := mustAcquire(t, l, key, lockmw.Policy{MinHold: time.Minute, Wait: time.Second})
		token, _, _ := strings.Cut(c.Get(ctx, lock).Val(), ":")
		channel := "lock:grants:" + l.Instance()
		await.Within(t, 5*time.Second, "the Locker listens", func() bool { return c.PubSubNumSub(ctx, channel).Val()[channel] == 1 })
		mustRelease(t, lease)
		if n := c.Publish(ctx, channel, token+" 1 1 2000 "+lock).Val(); n != 1 {
			t.Fatalf("%d hear the message", n)
		}
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if c.Exists(ctx, lock).Val() == 0 {
				t.Fatal("the key was freed before its MinHold")
			}
		}
		c.Del(ctx, lock, lock+":fence")
	})
}

// The key is free as soon as the work has failed, and not before MinHold where it was done.
func TestFailedWorkDoesNotKeepTheKey(t *testing.T) {
	oops := errors.New("oops")
	fails := func(context.Context) error { return oops }
	p := lockmw.Policy{MinHold: time.Minute}
	always := p
	always.MinHoldOnError = true
	for name, tc := range map[string]struct {
		work  func(l *lockmw.Locker, key string)
		stays bool
	}{
		"an error": {func(l *lockmw.Locker, key string) { _ = l.WithLock(t.Context(), key, p, fails) }, false},
		"no error": {func(l *lockmw.Locker, key string) {
			_ = l.WithLock(t.Context(), key, p, func(context.Context) error { return nil })
		}, true},
		"MinHoldOnError": {func(l *lockmw.Locker, key string) { _ = l.WithLock(t.Context(), key, always, fails) }, true},
		"a panic": {func(l *lockmw.Locker, key string) {
			defer func() { _ = recover() }()
			_ = l.WithLock(t.Context(), key, p, func(context.Context) error { panic("oops") })
		}, false},
		"Goexit": {func(l *lockmw.Locker, key string) {
			var ended sync.WaitGroup
			ended.Go(func() {
				_ = l.WithLock(t.Context(), key, p, func(context.Context) error {
					runtime.Goexit()
					return nil
				})
			})
			ended.Wait()
		}, false},
		"one of several keys": {func(l *lockmw.Locker, key string) { _ = l.WithLocks(t.Context(), []string{key, key + "2"}, p, fails) }, false},
		"several keys, no error": {func(l *lockmw.Locker, key string) {
			_ = l.WithLocks(t.Context(), []string{key, key + "2"}, p, func(context.Context) error { return nil })
		}, true},
		"a lease that says so": {func(l *lockmw.Locker, key string) {
			lease := mustAcquire(t, l, key, p)
			lease.MarkFailed()
			mustRelease(t, lease)
		}, false},
		"a lease that says so too late": {func(l *lockmw.Locker, key string) {
			lease := mustAcquire(t, l, key, p)
			mustRelease(t, lease)
			lease.MarkFailed()
		}, true},
		"inner work that has failed, without a MinHold outside": {func(l *lockmw.Locker, key string) {
			_ = l.WithLock(t.Context(), key, lockmw.Policy{}, func(ctx context.Context) error {
				inner := p
				inner.Reentrant = true
				_ = l.WithLock(ctx, key, inner, fails)
				return nil
			})
		}, false},
		"inner work that was done, outer that has failed": {func(l *lockmw.Locker, key string) {
			_ = l.WithLock(t.Context(), key, p, func(ctx context.Context) error {
				inner := p
				inner.Reentrant = true
				_ = l.WithLock(ctx, key, inner, func(context.Context) error { return nil })
				return oops
			})
		}, true},
		"inner work that has failed, outer that was done": {func(l *lockmw.Locker, key string) {
			_ = l.WithLock(t.Context(), key, p, func(ctx context.Context) error {
				inner := p
				inner.Reentrant = true
				_ = l.WithLock(ctx, key, inner, fails)
				return nil
			})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, c *redis.Client, key string) {
				tc.work(testenv.Open(t, c), key)
				if stays := c.Exists(t.Context(), "lock:{"+key+"}").Val() == 1; stays != tc.stays {
					t.Errorf("the key stays taken: %v, want %v", stays, tc.stays)
				}
			})
		})
	}
}

// Whoever waits behind work that has failed is next at once, in this process or another.
func TestFailedWorkHandsTheLockOn(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		holds, waits := testenv.Open(t, c), testenv.Open(t, c)
		p := lockmw.Policy{MinHold: time.Minute, Wait: 30 * time.Second}
		for _, l := range []*lockmw.Locker{holds, waits} {
			lease := mustAcquire(t, holds, key, p)
			next := lineUp(t, l, key, p, 1)
			lease.MarkFailed()
			mustRelease(t, lease)
			second := <-next
			second.MarkFailed()
			mustRelease(t, second)
		}
		noKeys(t, c, key, 5*time.Second)
	})
}
