package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// refusal asks once and returns the refusal.
func (s scene) refusal(l *lockmw.Locker, p lockmw.Policy) *lockmw.AcquireError {
	s.Helper()
	_, lease, err := l.Acquire(context.Background(), "42", p)
	if err == nil {
		mustRelease(s, lease)
		s.Fatal("the lock is free")
	}
	refusal, ok := errors.AsType[*lockmw.AcquireError](err)
	if !ok {
		s.Fatal(err)
	}
	return refusal
}

const job = 1500 * time.Millisecond

// What a refused client is told while another process has a job of 1.5 s under the
// lock, at the job's beginning.
func TestRetryAfterIsAsLongAsJobsTake(t *testing.T) {
	pay := lockmw.Policy{Name: "pay", Prefix: "order:"}
	for _, tc := range []struct {
		name     string
		before   func(s scene) // three jobs
		asks     lockmw.Policy
		min, max time.Duration
	}{
		{"nothing is known", func(scene) {}, pay, time.Second, time.Second},
		{"its own jobs", func(s scene) {
			for range 3 {
				mustRelease(s, s.holdsFor(s.locks, pay, job))
			}
		}, pay, job, job},
		{"jobs of others, by waiting for them", func(s scene) {
			for range 3 {
				lease := s.holdsFor(s.elsewhere, pay, 0)
				waits := pay
				waits.Wait = time.Minute
				done := make(chan struct{})
				go func() {
					defer close(done)
					mustRelease(s, mustAcquire(s, s.locks, "42", waits))
				}()
				time.Sleep(job)
				mustRelease(s, lease)
				<-done
			}
		}, lockmw.Policy{Name: "pay", Prefix: "order:", Wait: time.Millisecond}, time.Second, job},
		{"jobs of others, by refusals", func(s scene) {
			for range 3 {
				lease := s.holdsFor(s.elsewhere, pay, job-100*time.Millisecond)
				s.refusal(s.locks, pay)
				time.Sleep(100 * time.Millisecond)
				mustRelease(s, lease)
			}
		}, pay, job - 100*time.Millisecond, job},
		{"jobs under another name", func(s scene) {
			for range 3 {
				mustRelease(s, s.holdsFor(s.locks, pay, job))
			}
		}, lockmw.Policy{Name: "cancel", Prefix: "order:"}, time.Second, time.Second},
		{"the policy says it", func(scene) {}, lockmw.Policy{Name: "pay", Prefix: "order:", RetryAfter: 7 * time.Second}, 7 * time.Second, 7 * time.Second},
		{"less than a second, as the policy says", func(scene) {}, lockmw.Policy{Prefix: "order:", RetryAfter: 50 * time.Millisecond}, 50 * time.Millisecond, 50 * time.Millisecond},
		{"the key stays taken after the work, too", func(scene) {}, lockmw.Policy{Prefix: "order:", MinHold: 20 * time.Second}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s scene) {
				tc.before(s)
				lease := s.holdsFor(s.elsewhere, pay, 0)
				if got := s.refusal(s.locks, tc.asks).RetryAfter; got < tc.min || got > tc.max {
					t.Errorf("RetryAfter = %v, want %v to %v", got, tc.min, tc.max)
				}
				mustRelease(s, lease)
			})
		})
	}
}

// What is left of a job counts, and those who wait in front.
func TestRetryAfterCountsDownAndCountsWaiters(t *testing.T) {
	inScene(t, func(s scene) {
		for range 3 {
			mustRelease(s, s.holdsFor(s.locks, order, 6*time.Second))
		}
		lease := s.holdsFor(s.elsewhere, order, time.Second)
		if got := s.refusal(s.locks, order).RetryAfter; got != 5*time.Second {
			t.Errorf("RetryAfter = %v of a job of 6 s after 1 s, want 5s", got)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			waits := order
			waits.Wait = time.Hour
			_, _, _ = s.elsewhere.Acquire(ctx, "42", waits)
		}()
		synctest.Wait()
		if got := s.refusal(s.locks, order).RetryAfter; got != 11*time.Second {
			t.Errorf("RetryAfter = %v with one who waits, want 5s and 6s", got)
		}
		for range 20 {
			go func() {
				waits := order
				waits.Wait = time.Hour
				_, _, _ = s.locks.Acquire(ctx, "42", waits)
			}()
		}
		synctest.Wait()
		if got := s.refusal(s.locks, order).RetryAfter; got <= 11*time.Second || got > 30*time.Second {
			t.Errorf("RetryAfter = %v with 21 who wait, want no more than what is left of the TTL", got)
		}
		cancel()
		synctest.Wait()
		time.Sleep(20 * time.Second)
		if got := s.refusal(s.locks, order).RetryAfter; got != time.Second {
			t.Errorf("RetryAfter = %v of a job that takes longer than others, want 1s", got)
		}
		mustRelease(s, lease)
	})
}

// A holder that has crashed renews nothing: the lock comes free at the end of its TTL.
func TestRetryAfterACrashIsWhatIsLeftOfTheTTL(t *testing.T) {
	inScene(t, func(s scene) {
		for _, jobs := range []int{0, 3} {
			for range jobs {
				mustRelease(s, s.holdsFor(s.locks, order, job))
			}
			// What a process leaves behind that ended under the lock.
			at := time.Now().UnixMicro()
			s.client.Set(context.Background(), "lock:{order:42}", fmt.Sprintf("gone-0123456789.%s:%d", uuid.NewString(), at), 30*time.Second)
			time.Sleep(18 * time.Second)
			refusal := s.refusal(s.locks, order)
			if refusal.RetryAfter != 12*time.Second {
				t.Errorf("after %d jobs: RetryAfter = %v, want the 12 s that are left", jobs, refusal.RetryAfter)
			}
			if h := refusal.Holder; h == nil || *h != (lockmw.Holder{Instance: "gone-0123456789", Age: 18 * time.Second, Left: 12 * time.Second}) {
				t.Errorf("Holder = %+v", h)
			}
			time.Sleep(12 * time.Second)
		}
	})
}

// Who held the lock is in the refusal, where one holder can be named.
func TestRefusalNamesTheHolder(t *testing.T) {
	inScene(t, func(s scene) {
		lease := s.holdsFor(s.elsewhere, order, time.Second)
		waits := order
		waits.Wait = 500 * time.Millisecond
		for _, p := range []lockmw.Policy{order, waits} {
			want := lockmw.Holder{Instance: s.elsewhere.Instance(), Age: time.Since(lockStart(lease)) + p.Wait, Left: 29*time.Second - p.Wait}
			if h := s.refusal(s.locks, p).Holder; h == nil || *h != want {
				t.Errorf("wait %v: Holder = %+v, want %+v", p.Wait, h, want)
			}
		}
		mustRelease(s, lease)
		shared := order
		shared.Mode = lockmw.Shared
		lease = s.holdsFor(s.elsewhere, shared, time.Second)
		if h := s.refusal(s.locks, order).Holder; h == nil || h.Instance != s.elsewhere.Instance() || h.Age != time.Second {
			t.Errorf("a reader elsewhere: Holder = %+v, want it", h)
		}
		mustRelease(s, lease)
		s.client.Set(context.Background(), "lock:{order:42}", "their.token", time.Minute)
		if h := s.refusal(s.locks, order).Holder; h != nil {
			t.Errorf("a program that is not ours: Holder = %+v, want none", h)
		}
	})
}

// lockStart is when a lease began, by its fence.
func lockStart(l *lockmw.Lease) time.Time { return time.UnixMicro(l.Fence()) }

// On a real server too, and for a waiter whose neighbour asks for it.
func TestRealRefusalNamesTheHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	key := redistest.Prefix(t)
	a, b := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
	lease := mustAcquire(t, a, key, lockmw.Policy{})
	defer mustRelease(t, lease)
	for _, wait := range []time.Duration{0, 1500 * time.Millisecond} { // the longer one outlasts a command that is not answered
		err := answered(func() error {
			_, _, err := b.Acquire(context.Background(), key, lockmw.Policy{Wait: wait})
			return err
		})
		refusal, ok := errors.AsType[*lockmw.AcquireError](err)
		if !ok {
			t.Fatalf("wait %v: %v", wait, err)
		}
		if refusal.Holder == nil || refusal.Holder.Instance != a.Instance() || refusal.Holder.Age <= 0 || refusal.Holder.Left < 15*time.Second {
			t.Errorf("wait %v: %v, Holder %+v", wait, err, refusal.Holder)
		}
		if refusal.RetryAfter < time.Second || refusal.RetryAfter > 3*time.Second {
			t.Errorf("wait %v: RetryAfter = %v", wait, refusal.RetryAfter)
		}
	}
}
