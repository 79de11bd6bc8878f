package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// refusedAfter returns how long a policy waits for a lock that stays held, and
// the refusal.
func refusedAfter(t *testing.T, l *lockmw.Locker, p lockmw.Policy) (time.Duration, *lockmw.AcquireError) {
	t.Helper()
	began := time.Now()
	_, _, err := l.Acquire(context.Background(), "k", p)
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.As(err, &refusal) {
		t.Fatalf("err = %v", err)
	}
	return time.Since(began), refusal
}

func TestWaitEndsAtTheFirstOfItsBounds(t *testing.T) {
	for _, tc := range []struct {
		name             string
		policy           lockmw.Policy
		shortest, longer time.Duration
		attempts         int
	}{
		{"no budget", lockmw.Policy{}, 0, 0, 1},
		{"Wait", lockmw.Policy{Wait: time.Second, RetryInterval: 10 * time.Second}, time.Second, time.Second, 3},
		{"Retries", lockmw.Policy{Retries: 3}, 300 * time.Millisecond, 600 * time.Millisecond, 4},
		{"one retry", lockmw.Policy{Retries: 1, RetryInterval: 200 * time.Millisecond}, 200 * time.Millisecond, 400 * time.Millisecond, 2},
		{"Wait before Retries", lockmw.Policy{Wait: 150 * time.Millisecond, Retries: 100, RetryInterval: 100 * time.Millisecond}, 150 * time.Millisecond, 150 * time.Millisecond, 3},
		{"Retries before Wait", lockmw.Policy{Wait: time.Minute, Retries: 2, RetryInterval: 50 * time.Millisecond}, 100 * time.Millisecond, 200 * time.Millisecond, 3},
		{"Wait with Forever", lockmw.Policy{Wait: 2 * time.Second, Retries: lockmw.Forever, RetryInterval: 900 * time.Millisecond}, 2 * time.Second, 2 * time.Second, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *redistest.Mini, l *lockmw.Locker) {
				defer mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
				waited, refusal := refusedAfter(t, l, tc.policy)
				if waited < tc.shortest || waited > tc.longer {
					t.Errorf("waited %v, want %v to %v", waited, tc.shortest, tc.longer)
				}
				// The subscription, once it hears, and a long interval cost one more
				// command each.
				if refusal.Attempts < tc.attempts-1 || refusal.Attempts > tc.attempts+1 {
					t.Errorf("%d attempts, want about %d", refusal.Attempts, tc.attempts)
				}
				if refusal.Waited != waited {
					t.Errorf("Waited = %v, want %v", refusal.Waited, waited)
				}
			})
		})
	}
}

func TestWaiterFindsACrashedHoldersLockWhenItExpires(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Mini, l *lockmw.Locker) {
		if err := m.Set("lock:{k}", "a process that is gone"); err != nil {
			t.Fatal(err)
		}
		m.SetTTL("lock:{k}", 3*time.Second)
		began := time.Now()
		lease := mustAcquire(t, l, "k", lockmw.Policy{Wait: time.Minute, RetryInterval: 20 * time.Second})
		if took := time.Since(began); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("found after %v, want 3 s and a little", took)
		}
		mustRelease(t, lease)
	})
}

func TestWaitersOfACrashedProcessDelayOthersByMoments(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Mini, l *lockmw.Locker) {
		holder := mustAcquire(t, l, "k", lockmw.Policy{})
		// A process that stood in the queue and crashed leaves this behind: it
		// is not listening, but its last command is not old.
		alive := time.Now().Add(3 * time.Second).UnixMicro()
		m.HSet("lock:{k}:alive", "gone", text(alive)+"v")
		for _, token := range []string{"gone.1", "gone.2", "gone.3"} {
			if _, err := m.ZAdd("lock:{k}:queue", float64(time.Now().UnixMicro()), token+":30000"); err != nil {
				t.Fatal(err)
			}
		}
		m.SetTTL("lock:{k}:alive", 10*time.Second)
		m.SetTTL("lock:{k}:queue", 10*time.Second)
		got := make(chan *lockmw.Lease)
		go func() { got <- mustAcquire(t, l, "k", lockmw.Policy{Wait: time.Minute}) }()
		time.Sleep(500 * time.Millisecond)
		released := time.Now()
		mustRelease(t, holder)
		lease := <-got
		if took := time.Since(released); took > 100*time.Millisecond {
			t.Errorf("handed over after %v", took)
		}
		mustRelease(t, lease)
		time.Sleep(12 * time.Second) // the dead process's places end by themselves
		if n := len(m.Keys()); n != 0 {
			t.Errorf("left: %q", m.Keys())
		}
	})
}

func TestContendedIsToldOnce(t *testing.T) {
	var seen events
	bubble(t, func(t *testing.T, _ *redistest.Mini, l *lockmw.Locker) {
		defer mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
		refusedAfter(t, l, lockmw.Policy{Prefix: "", Wait: 5 * time.Second})
		if n := len(seen.of(lockmw.EventContended)); n != 1 {
			t.Errorf("%d contended events, want 1", n)
		}
		refused := seen.of(lockmw.EventRefused)
		if len(refused) != 1 || !errors.Is(refused[0].Err, lockmw.ErrNotAcquired) || refused[0].Waited != 5*time.Second ||
			!refused[0].Queued || refused[0].Reason != lockmw.CodeWaitTimeout {
			t.Errorf("refused events: %+v", refused)
		}
	}, seen.option())
}

// A deadline may come between two questions. The next one is not put then, and
// that says nothing about Redis: the lock is busy.
func TestDeadlineBetweenQuestionsIsBusy(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	mustAcquire(t, l, "k", lockmw.Policy{})
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, _, err := l.Acquire(ctx, "k", lockmw.Policy{Retries: lockmw.Forever, RetryInterval: time.Millisecond})
		cancel()
		var refusal *lockmw.AcquireError
		if errors.As(err, &refusal) && refusal.Attempts == 1 {
			continue // a busy machine: there may have been no answer at all
		}
		if !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Fatalf("err = %v", err)
		}
	}
}
