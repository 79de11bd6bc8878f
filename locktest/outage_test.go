package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestWhatWasLockedIsThereAfterAnOutage(t *testing.T) {
	l := locktest.New(t)
	lease := acquire(t, l, key, lockmw.Policy{})
	for round := range 3 {
		locktest.Down(t, l)
		locktest.Down(t, l)
		start := time.Now()
		_, _, err := l.Acquire(context.Background(), "other", lockmw.Policy{})
		if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("round %d: acquire while Redis is down: %v, want %v and the cause", round, err, lockmw.ErrUnavailable)
		}
		if took := time.Since(start); took > soon {
			t.Errorf("round %d: one attempt was refused after %v", round, took)
		}
		if !lease.Valid() {
			t.Errorf("round %d: the lease is not valid, though its TTL is not over", round)
		}
		start = time.Now()
		locktest.Up(t, l)
		t.Logf("up after %v", time.Since(start))
		locktest.Up(t, l)
		if _, _, err := l.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("round %d: acquire of a key that is held: %v, want %v", round, err, lockmw.ErrNotAcquired)
		}
		if err := acquire(t, l, "other", lockmw.Policy{}).Release(context.Background()); err != nil {
			t.Errorf("round %d: release: %v", round, err)
		}
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Errorf("release: %v", err)
	}
}

// Also when the Locker has known for long that Redis is away, and refuses all calls
// without asking.
func TestUpReturnsWhenTheLockerKnows(t *testing.T) {
	l := locktest.New(t)
	locktest.Down(t, l)
	_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute})
	if !errors.Is(err, lockmw.ErrUnavailable) {
		t.Fatalf("acquire: %v, want %v", err, lockmw.ErrUnavailable)
	}
	locktest.Up(t, l)
	acquire(t, l, key, lockmw.Policy{})
}

func TestPolicySaysWhatHappensWhileRedisIsDown(t *testing.T) {
	l := locktest.New(t)
	locktest.Down(t, l)
	open := acquire(t, l, key, lockmw.Policy{FailOpen: true})
	if open.Fence() != 0 {
		t.Errorf("a lease without Redis has the fence %d", open.Fence())
	}
	patient := make(chan error, 1)
	go func() {
		_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Retries: lockmw.Forever})
		patient <- err
	}()
	locktest.AwaitWaiters(t, l, key, 1)
	locktest.Up(t, l)
	if err := <-patient; err != nil {
		t.Errorf("who waits for Redis gets %v", err)
	}
}

func TestLeaseEndsInAnOutageByItsTTL(t *testing.T) {
	l := locktest.New(t)
	lease := acquire(t, l, key, lockmw.Policy{TTL: time.Second})
	locktest.Down(t, l)
	select {
	case <-lease.Context().Done():
	case <-time.After(soon):
		t.Fatal("the lease goes on without Redis")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("cause = %v, want %v", cause, lockmw.ErrLost)
	}
	// Its key passes on while it cannot know, which is what leases end early for.
	for len(locktest.Keys(t, l)) > 0 { // each look is a round trip
	}
	release := locktest.Hold(t, l, key)
	release()
	locktest.Up(t, l)
	if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("release: %v, want %v", err, lockmw.ErrLost)
	}
}

func TestOthersReachRedisWhileItIsDown(t *testing.T) {
	l := locktest.New(t)
	before := locktest.Hold(t, l, "before")
	locktest.Down(t, l)
	locktest.Hold(t, l, key)
	before()
	if got := fmt.Sprint(locktest.Keys(t, l)); got != "["+key+"]" {
		t.Errorf("keys: %s, want what the second Hold took", got)
	}
	locktest.Up(t, l)
	if _, _, err := l.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("acquire of what others took meanwhile: %v, want %v", err, lockmw.ErrNotAcquired)
	}
	acquire(t, l, "before", lockmw.Policy{})
}

// What holds a lock when a test ends can give it back: Redis is up again by then.
func TestTheEndOfATestEndsItsOutage(t *testing.T) {
	t.Run("of the Locker's own test", func(t *testing.T) {
		var lease *lockmw.Lease
		said := try(t, func(t testing.TB) {
			l := locktest.New(t)
			locktest.Hold(t, l, "other")
			lease = acquire(t, l, key, lockmw.Policy{})
			locktest.Down(t, l)
			_, _, err := l.Acquire(context.Background(), "other", lockmw.Policy{Wait: time.Minute})
			if !errors.Is(err, lockmw.ErrUnavailable) {
				t.Errorf("acquire: %v, want %v", err, lockmw.ErrUnavailable)
			}
		})
		if said != "" {
			t.Errorf("the test fails: %s", said)
		}
		if err := lease.Release(context.Background()); err != nil && !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release: %v", err)
		}
	})
	t.Run("of a part of it", func(t *testing.T) {
		l := locktest.New(t)
		if said := try(t, func(t testing.TB) { locktest.Down(t, l) }); said != "" {
			t.Errorf("the test fails: %s", said)
		}
		acquire(t, l, key, lockmw.Policy{})
		locktest.Down(t, l)
		try(t, func(t testing.TB) { locktest.Down(t, l) })
		if _, _, err := l.Acquire(context.Background(), "other", lockmw.Policy{}); !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("the end of a second Down's test ends the first: %v", err)
		}
	})
}

// The test has seen what Close returns.
func TestLockerMayBeClosedInAnOutage(t *testing.T) {
	said := try(t, func(t testing.TB) {
		l := locktest.New(t)
		acquire(t, l, key, lockmw.Policy{})
		locktest.Down(t, l)
		ended, end := context.WithCancel(context.Background())
		end()
		if err := l.Close(ended); !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("close: %v, want %v", err, lockmw.ErrUnavailable)
		}
	})
	if said != "" {
		t.Errorf("the test fails: %s", said)
	}
}

func TestLoseFailsWhileRedisIsDown(t *testing.T) {
	l := locktest.New(t)
	lease := acquire(t, l, key, lockmw.Policy{})
	locktest.Down(t, l)
	said := try(t, func(t testing.TB) { locktest.Lose(t, l, key) })
	if want := `locktest: Lose: Redis is down, so the holder of "` + key + `" cannot be told: call Up first`; said != want {
		t.Errorf("failure = %q, want %q", said, want)
	}
	locktest.Up(t, l)
	if err := lease.Release(context.Background()); err != nil {
		t.Errorf("release: %v, want that nothing was lost", err)
	}
}

func TestUpFailsTheTest(t *testing.T) {
	l := locktest.New(t)
	locktest.Down(t, l)
	_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute}) // until a ping has confirmed it
	if !errors.Is(err, lockmw.ErrUnavailable) {
		t.Fatalf("acquire: %v, want %v", err, lockmw.ErrUnavailable)
	}
	locktest.Hurry(t, l, -1)
	said := try(t, func(t testing.TB) { locktest.Up(t, l) })
	locktest.Hurry(t, l, soon)
	if want := "locktest: Up: the Locker has not reached Redis again within -1ns"; said != want {
		t.Errorf("failure = %q, want %q", said, want)
	}
	locktest.Up(t, l)
}

// Outages come and go while locks are taken, given back and waited for: nothing hangs,
// and nobody has a lock beside another.
func TestManyOutages(t *testing.T) {
	l := locktest.New(t)
	stop, worked := make(chan struct{}), make(chan struct{})
	var workers sync.WaitGroup
	var mu sync.Mutex // held by whoever has the lock
	work := func(context.Context) error {
		if !mu.TryLock() {
			t.Error("two have the lock")
			return nil
		}
		defer mu.Unlock()
		select {
		case worked <- struct{}{}:
		case <-stop:
		default:
		}
		return nil
	}
	for range 8 {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := l.WithLock(context.Background(), key, lockmw.Policy{Wait: soon}, work)
				if err != nil && !errors.Is(err, lockmw.ErrUnavailable) && !errors.Is(err, lockmw.ErrNotAcquired) {
					t.Errorf("error = %v", err)
				}
			}
		})
	}
	var outages sync.WaitGroup
	for range 2 { // at the same time
		outages.Go(func() {
			for range 10 {
				locktest.Down(t, l)
				locktest.Keys(t, l)
				locktest.Up(t, l)
				for range 5 {
					<-worked
				}
			}
		})
	}
	outages.Wait()
	close(stop)
	workers.Wait()
	acquire(t, l, "after", lockmw.Policy{})
}
