package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// bubble runs test on a clock of its own, with a Redis that follows it.
func bubble(t *testing.T, test func(t *testing.T, m *redistest.Mini, l *lockmw.Locker), opts ...lockmw.Option) {
	t.Helper()
	inBubble(t, func(t *testing.T, m *redistest.Mini) {
		c := m.Client(t, func(o *redis.Options) { o.PoolSize = 1000 })
		test(t, m, testenv.Open(t, c, opts...))
	})
}

// inBubble is bubble for a test that opens Lockers of its own, some of them behind
// a fault proxy.
func inBubble(t *testing.T, test func(t *testing.T, s *redistest.Mini)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// What outlives a Locker's and a client's Close for a while: reports that a
		// slow observer has not had yet, and go-redis, where dials have failed, which
		// notices once a second that its pool is closed. This runs last.
		t.Cleanup(func() { time.Sleep(time.Minute) })
		test(t, redistest.InMemory(t))
	})
}

// FromContext without a lease, and defer lease.Release(ctx) in front of the look at the error.
func TestNoLeaseIsNoLock(t *testing.T) {
	none, _ := lockmw.FromContext(context.Background())
	none.MarkFailed()
	for _, did := range []struct {
		what      string
		got, want any
	}{
		{"Valid", none.Valid(), false},
		{"ValidUntil", none.ValidUntil(), time.Time{}},
		{"Key", none.Key(), ""},
		{"Fence", none.Fence(), int64(0)},
		{"FenceOf", none.FenceOf("order:42"), int64(0)},
		{"Context", context.Cause(none.Context()), lockmw.ErrLost},
		{"String", none.String(), "no lease"},
		{"%d", fmt.Sprintf("%d", none), "no lease"},
		{"LogValue", none.LogValue().String(), "no lease"},
		{"Release", none.Release(context.Background()).Error(), "lockmw: lock was lost: there is no lease: look first at the error of Acquire"},
	} {
		if did.got != did.want {
			t.Errorf("%s = %v, want %v", did.what, did.got, did.want)
		}
	}
	if err := none.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Release = %v, want ErrLost", err)
	}
}

func TestReleaseTwiceIsOneRelease(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		next := mustAcquire(t, l, key, lockmw.Policy{})
		mustRelease(t, lease) // still nil, and the successor's lock is not touched
		if !next.Valid() || c.Exists(context.Background(), "lock:{"+key+"}").Val() != 1 {
			t.Error("a late release took the successor's lock")
		}
		mustRelease(t, next)
	})
}

func TestReleaseWorksWhenTheContextIsCancelled(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		ctx, cancel := context.WithCancel(context.Background())
		_, lease, err := l.Acquire(ctx, key, lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
		noKeys(t, c, key, 0)
	})
}

func TestReleasedLeaseIsOver(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	lease := mustAcquire(t, l, "k", lockmw.Policy{})
	if got, ok := lockmw.FromContext(lease.Context()); !ok || got != lease {
		t.Error("the lease's context does not carry the lease")
	}
	if !lease.Valid() || time.Until(lease.ValidUntil()) < 20*time.Second {
		t.Errorf("valid %v until %v", lease.Valid(), lease.ValidUntil())
	}
	mustRelease(t, lease)
	if lease.Valid() {
		t.Error("valid after the release")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrReleased) {
		t.Errorf("cause = %v", cause)
	}
}

func TestContextEndsBeforeTheKeyComesFree(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		waiting := make(chan *lockmw.Lease)
		go func() {
			_, next, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 10 * time.Second})
			if err != nil {
				t.Error(err)
			} else if lease.Context().Err() == nil {
				t.Error("the successor runs while the context of its predecessor goes on")
			}
			waiting <- next
		}()
		await.Within(t, 5*time.Second, "queued", func() bool { return queued(t, c, key) == 1 })
		mustRelease(t, lease)
		mustRelease(t, <-waiting)
	})
}

func TestStolenLockEndsTheLease(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var seen events
		l := testenv.Open(t, c, seen.option())
		lease := mustAcquire(t, l, key, lockmw.Policy{TTL: 600 * time.Millisecond})
		c.Set(context.Background(), "lock:{"+key+"}", "somebody", time.Minute)
		lockmw.RenewAll(l)
		<-lease.Context().Done()
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrLost) {
			t.Errorf("cause = %v", cause)
		}
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release = %v", err)
		}
		if got := c.Get(context.Background(), "lock:{"+key+"}").Val(); got != "somebody" {
			t.Errorf("the key holds %q", got)
		}
		await.Within(t, 5*time.Second, "the loss is told", func() bool { return len(seen.of(lockmw.EventLost)) == 1 })
		c.Del(context.Background(), "lock:{"+key+"}", "lock:{"+key+"}:fence")
	})
}

func TestReleaseOfAVanishedLockIsALoss(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		c.Del(context.Background(), "lock:{"+key+"}")
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release = %v, want ErrLost", err)
		}
	})
}

func TestHeldLeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	var seen events
	bubble(t, func(t *testing.T, m *redistest.Mini, l *lockmw.Locker) {
		lease := mustAcquire(t, l, "k", lockmw.Policy{TTL: 30 * time.Second})
		for range 100 {
			time.Sleep(7 * time.Second)
			if !lease.Valid() || !m.Exists("lock:{k}") {
				t.Fatal("lost")
			}
		}
		renewed := len(seen.of(lockmw.EventRenewed))
		if renewed < 60 || renewed > 80 { // 700 s at 10 s, give or take a tenth
			t.Errorf("renewed %d times in 700 s", renewed)
		}
		if stuck := len(seen.of(lockmw.EventStuck)); stuck != 2 { // at 300 s and 600 s
			t.Errorf("%d stuck events, want 2", stuck)
		}
		mustRelease(t, lease)
		if n := len(m.Keys()); n != 0 {
			t.Errorf("left: %q", m.Keys())
		}
	}, seen.option())
}

func TestRenewalIsRetriedThroughAShortOutage(t *testing.T) {
	var seen events
	bubble(t, func(t *testing.T, m *redistest.Mini, l *lockmw.Locker) {
		lease := mustAcquire(t, l, "k", lockmw.Policy{TTL: 3 * time.Second})
		m.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(2 * time.Second)
		m.SetError("")
		time.Sleep(10 * time.Second)
		if !lease.Valid() {
			t.Error("lost")
		}
		if n := len(seen.of(lockmw.EventRenewalFailed)); n < 5 {
			t.Errorf("%d failed renewals were seen", n)
		}
		mustRelease(t, lease)
	}, seen.option())
}

func TestLeaseEndsInTimeWhenRedisStaysAway(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Mini, l *lockmw.Locker) {
		began := time.Now()
		lease := mustAcquire(t, l, "k", lockmw.Policy{TTL: 3 * time.Second})
		m.SetError("LOADING Redis is loading the dataset in memory")
		<-lease.Context().Done()
		if took := time.Since(began); took < 2600*time.Millisecond || took > 2700*time.Millisecond {
			t.Errorf("ended after %v, want 3 s less 32 ms drift less 300 ms guard", took)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrLost) {
			t.Errorf("cause = %v", cause)
		}
		m.SetError("")
		time.Sleep(time.Second)
		if lease.Valid() {
			t.Error("a lost lease became valid again")
		}
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release = %v", err)
		}
	})
}

func TestMaxHoldTellsTheWorkToStop(t *testing.T) {
	var seen events
	bubble(t, func(t *testing.T, m *redistest.Mini, l *lockmw.Locker) {
		began := time.Now()
		lease := mustAcquire(t, l, "k", lockmw.Policy{TTL: 3 * time.Second, MaxHold: 10 * time.Second})
		<-lease.Context().Done()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("ended after %v", took)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrMaxHold) {
			t.Errorf("cause = %v", cause)
		}
		if lease.Valid() {
			t.Error("valid after MaxHold")
		}
		if !m.Exists("lock:{k}") {
			t.Error("the key came free while the work may still be stopping")
		}
		synctest.Wait() // until the observer has been told
		if n := len(seen.of(lockmw.EventStuck)); n != 1 {
			t.Errorf("%d stuck events, want 1", n)
		}
		mustRelease(t, lease) // in time: the lock was held throughout
	}, seen.option())
}

func TestStuckWorkLosesTheLockAfterMaxHoldAndTTL(t *testing.T) {
	bubble(t, func(t *testing.T, _ *redistest.Mini, l *lockmw.Locker) {
		began := time.Now()
		stuck := mustAcquire(t, l, "k", lockmw.Policy{TTL: 3 * time.Second, MaxHold: 10 * time.Second})
		next := mustAcquire(t, l, "k", lockmw.Policy{Wait: time.Minute})
		if took := time.Since(began); took < 10*time.Second || took > 13500*time.Millisecond {
			t.Errorf("the key came free after %v", took)
		}
		if err := stuck.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release = %v, want ErrLost", err)
		}
		mustRelease(t, next)
	})
}

func TestParentsEndEndsTheContextButNotTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, _ *redistest.Mini, l *lockmw.Locker) {
		ctx, cancel := context.WithCancel(context.Background())
		_, lease, err := l.Acquire(ctx, "k", lockmw.Policy{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if cause := context.Cause(lease.Context()); !errors.Is(cause, context.Canceled) {
			t.Errorf("cause = %v", cause)
		}
		time.Sleep(10 * time.Second)
		if !lease.Valid() {
			t.Error("the lock was not renewed while the work may still be stopping")
		}
		mustRelease(t, lease)
	})
}

func TestFencesIncreaseEvenWhenRedisForgets(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Mini, l *lockmw.Locker) {
		var last int64
		for i := range 50 {
			lease := mustAcquire(t, l, "k", lockmw.Policy{})
			if lease.Fence() <= last {
				t.Fatalf("fence %d after %d in turn %d", lease.Fence(), last, i)
			}
			last = lease.Fence()
			mustRelease(t, lease)
			if i%10 == 9 {
				time.Sleep(time.Millisecond)
				m.FlushAll()
			}
		}
	})
}

func TestHandedOverLeaseIsExtendedToItsFullTTL(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		got := make(chan *lockmw.Lease)
		go func() {
			_, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{TTL: time.Minute, Wait: 10 * time.Second})
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		await.Within(t, 5*time.Second, "queued and heard", func() bool {
			mode := c.HGetAll(context.Background(), "lock:{"+key+"}:alive").Val()
			for _, v := range mode {
				return strings.Contains(v, "v")
			}
			return false
		})
		mustRelease(t, first)
		second := <-got
		if second == nil {
			return
		}
		await.Within(t, 5*time.Second, "confirmed with the full TTL", func() bool {
			return c.PTTL(context.Background(), "lock:{"+key+"}").Val() > 50*time.Second && time.Until(second.ValidUntil()) > 50*time.Second
		})
		mustRelease(t, second)
	})
}
