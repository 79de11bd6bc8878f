package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestLockIsAPlainKeyWithATTL(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		lease := mustAcquire(t, l, key, lockmw.Policy{Prefix: "pay:", TTL: 10 * time.Second})
		name := "lock:{pay:" + key + "}"
		if got := c.Type(context.Background(), name).Val(); got != "string" {
			t.Errorf("type of %s = %s, want string", name, got)
		}
		if ttl := c.PTTL(context.Background(), name).Val(); ttl < 8*time.Second || ttl > 10*time.Second {
			t.Errorf("PTTL = %v, want nearly 10 s", ttl)
		}
		if got := lease.Key(); got != "pay:"+key {
			t.Errorf("Key() = %q", got)
		}
		mustRelease(t, lease)
		noKeys(t, c, key, 0)
	})
}

func TestOneAttemptWithoutWaitOrRetries(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		defer mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{TTL: 20 * time.Second}))
		_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{})
		var refusal *lockmw.AcquireError
		if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.As(err, &refusal) {
			t.Fatalf("err = %v", err)
		}
		if refusal.Attempts != 1 || refusal.Key != key {
			t.Errorf("refusal = %+v", refusal)
		}
		if refusal.RetryAfter != time.Second {
			t.Errorf("RetryAfter = %v, want 1 s while nothing is known of how long locks are held", refusal.RetryAfter)
		}
		if n := queued(t, c, key); n != 0 {
			t.Errorf("%d in the queue", n)
		}
	})
}

func TestWaiterGetsTheLockWhenItIsReleased(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		got := make(chan *lockmw.Lease)
		go func() {
			_, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 10 * time.Second})
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		await.Within(t, 5*time.Second, "queued", func() bool { return queued(t, c, key) == 1 })
		mustRelease(t, first)
		second := <-got
		if second == nil {
			return
		}
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
		mustRelease(t, second)
		noKeys(t, c, key, 0)
	})
}

func TestWaitersAreServedInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
	const waiters = 30
	wantInOrder(t, waiters, func(apart time.Duration) (order []int) {
		c, key := s.Client(t), redistest.Prefix(t)
		holder := mustAcquire(t, lockers[0], key, lockmw.Policy{})
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				_, lease, err := lockers[i%2].Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				mustRelease(t, lease)
			})
			await.Within(t, 5*time.Second, "it waits", func() bool {
				return lockmw.Waiting(lockers[0], key)+lockmw.Waiting(lockers[1], key) == i+1 &&
					queued(t, c, key) == min(i+1, len(lockers)) // the first of each
			})
			time.Sleep(apart)
		}
		mustRelease(t, holder)
		wg.Wait()
		return order
	})
}

func TestCancelledWaiterReturnsAtOnceAndLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		holder := mustAcquire(t, l, key, lockmw.Policy{})
		why := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan error)
		go func() {
			_, _, err := l.Acquire(ctx, key, lockmw.Policy{Wait: time.Minute})
			ended <- err
		}()
		await.Within(t, 5*time.Second, "queued", func() bool { return queued(t, c, key) == 1 })
		cancelled := time.Now()
		cancel(why)
		err := <-ended
		if took := time.Since(cancelled); took > 500*time.Millisecond {
			t.Errorf("returned after %v", took)
		}
		for _, want := range []error{lockmw.ErrNotAcquired, context.Canceled, why} {
			if !errors.Is(err, want) {
				t.Errorf("err = %v, want it to be %v", err, want)
			}
		}
		await.Within(t, 5*time.Second, "the queue is empty", func() bool { return queued(t, c, key) == 0 })
		mustRelease(t, holder)
		noKeys(t, c, key, 2*time.Second)
	})
}

func TestDeadlineWhileWaitingIsNotAcquiredAndDeadlineExceeded(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	defer mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, _, err := l.Acquire(ctx, "k", lockmw.Policy{Retries: lockmw.Forever})
	if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

func TestEndedContextAsksNothing(t *testing.T) {
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := l.Acquire(ctx, "k", lockmw.Policy{})
	if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if n := m.CommandCount(); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

func TestBadKeysAndPoliciesAskNothing(t *testing.T) {
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	for _, tc := range []struct {
		name, key string
		policy    lockmw.Policy
		want      error
	}{
		{"empty", "", lockmw.Policy{}, lockmw.ErrInvalidKey},
		{"brace", "a}b", lockmw.Policy{}, lockmw.ErrInvalidKey},
		{"control", "a\x00b", lockmw.Policy{}, lockmw.ErrInvalidKey},
		{"too long", strings.Repeat("k", 513), lockmw.Policy{}, lockmw.ErrInvalidKey},
		{"policy", "k", lockmw.Policy{TTL: 1}, lockmw.ErrInvalidPolicy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := l.Acquire(context.Background(), tc.key, tc.policy)
			var refusal *lockmw.AcquireError
			if !errors.Is(err, tc.want) || !errors.As(err, &refusal) || refusal.RetryAfter != 0 {
				t.Errorf("err = %v", err)
			}
		})
	}
	if n := m.CommandCount(); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

func TestLongestKeyWorks(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	mustRelease(t, mustAcquire(t, l, strings.Repeat("é", 256), lockmw.Policy{Prefix: strings.Repeat("p", 256)}))
}

func TestTooManyWaitersAreRefused(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c, lockmw.WithMaxWaiters(2, 3))
		holder := mustAcquire(t, l, key, lockmw.Policy{})
		other := mustAcquire(t, l, key+"other", lockmw.Policy{})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wait := func(key string) {
			wg.Go(func() { _, _, _ = l.Acquire(ctx, key, lockmw.Policy{Wait: time.Minute}) })
		}
		wait(key)
		wait(key)
		wait(key + "other")
		await.Within(t, 5*time.Second, "queued", func() bool {
			return lockmw.Waiting(l, key) == 2 && lockmw.Waiting(l, key+"other") == 1
		})
		for _, full := range []string{key, key + "other"} { // per key, in total
			_, _, err := l.Acquire(context.Background(), full, lockmw.Policy{Wait: time.Minute})
			var refusal *lockmw.AcquireError
			if !errors.Is(err, lockmw.ErrQueueFull) || !errors.As(err, &refusal) || refusal.RetryAfter < time.Second {
				t.Errorf("err = %v", err)
			}
		}
		_, free, err := l.Acquire(context.Background(), key+"free", lockmw.Policy{Wait: time.Minute})
		if err != nil {
			t.Fatalf("a free lock needs no place to wait: %v", err)
		}
		cancel()
		wg.Wait()
		for _, lease := range []*lockmw.Lease{holder, other, free} {
			mustRelease(t, lease)
		}
		noKeys(t, c, key, 2*time.Second)
	})
}

func TestNestedAcquireIsRefusedInsteadOfWaitingForItself(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	err := l.WithLock(context.Background(), "a", lockmw.Policy{}, func(ctx context.Context) error {
		return l.WithLock(ctx, "b", lockmw.Policy{}, func(ctx context.Context) error {
			_, _, err := l.Acquire(ctx, "a", lockmw.Policy{Wait: time.Minute})
			if !errors.Is(err, lockmw.ErrReentrant) {
				t.Errorf("err = %v, want ErrReentrant", err)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestContextOfAReleasedLeaseDoesNotHoldTheLock(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	lease := mustAcquire(t, l, "k", lockmw.Policy{})
	ctx := context.WithoutCancel(lease.Context())
	mustRelease(t, lease)
	_, again, err := l.Acquire(ctx, "k", lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, again)
}

func TestForeignDataAreNotTouched(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		name := "lock:{" + key + "}"
		c.HSet(context.Background(), name, "field", "value")
		for _, p := range []lockmw.Policy{{}, {Wait: 5 * time.Second}, {FailOpen: true}} {
			began := time.Now()
			_, _, err := l.Acquire(context.Background(), key, p)
			if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("err = %v", err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it was retried for %v", took)
			}
		}
		if got := c.HGetAll(context.Background(), name).Val(); len(got) != 1 || got["field"] != "value" {
			t.Errorf("the data are %v now", got)
		}
		if keys := keysOf(t, c, key); len(keys) != 1 {
			t.Errorf("left: %q", keys)
		}
		c.Del(context.Background(), name)
	})
}

func TestForeignHolderIsFoundGoneByRetrying(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		name := "lock:{" + key + "}"
		c.SetNX(context.Background(), name, "somebody", time.Minute)
		if _, _, err := l.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Fatalf("err = %v", err)
		}
		got := make(chan error)
		go func() {
			_, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 10 * time.Second, RetryInterval: 20 * time.Millisecond})
			if err == nil {
				err = lease.Release(context.Background())
			}
			got <- err
		}()
		await.Within(t, 5*time.Second, "queued", func() bool { return queued(t, c, key) == 1 })
		c.Del(context.Background(), name) // wakes nobody
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}
