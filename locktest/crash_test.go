package locktest_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// crash has the process die in the middle of work for a key.
func crash(t *testing.T, l *lockmw.Locker, key string, f lockmw.Flight) {
	t.Helper()
	answer, shared, err := pay(l, key, "dead", f, func(ctx context.Context) {
		locktest.Crash(t, l)
		if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
			t.Errorf("cause = %v, want %v", cause, lockmw.ErrLost)
		}
	})
	if answer != "dead" || shared || !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("who crashes: Do = %q, %v, %v, want its own answer and %v", answer, shared, err, lockmw.ErrLost)
	}
}

// The next call finds the intent, and what somebody says who has looked counts.
func TestWorkThatCrashedIsUncertain(t *testing.T) {
	for name, tc := range map[string]struct {
		resolved lockmw.Resolution
		answer   string
		shared   bool
		err      error
	}{
		"done":    {lockmw.Done("paid"), "paid", true, nil},
		"again":   {lockmw.Again, "new", false, nil},
		"discard": {lockmw.Discard, "", false, lockmw.ErrAnswerNotKept},
	} {
		t.Run(name, func(t *testing.T) {
			l := locktest.New(t)
			crash(t, l, "42", once)
			_, _, err := pay(l, "42", "", once, func(context.Context) { t.Error("the work is done again") })
			told, ok := errors.AsType[*lockmw.UncertainError](err)
			if !ok {
				t.Fatalf("error = %v, want %v", err, lockmw.ErrUncertain)
			}
			unknown := locktest.Uncertain(t, l)
			if len(unknown) != 1 || unknown[0].Key != "pay:42" || unknown[0].ID != told.ID || !unknown[0].Since.Equal(told.Since) {
				t.Fatalf("uncertain is %v, want %v", unknown, told)
			}
			if err := l.Resolve(context.Background(), unknown[0].Key, unknown[0].ID, tc.resolved); err != nil {
				t.Error(err)
			}
			if unknown := locktest.Uncertain(t, l); len(unknown) != 0 {
				t.Errorf("uncertain is %v after it was resolved", unknown)
			}
			answer, shared, err := pay(l, "42", "new", once, nil)
			if answer != tc.answer || shared != tc.shared || !errors.Is(err, tc.err) {
				t.Errorf("Do = %q, %v, %v, want %q, %v, %v", answer, shared, err, tc.answer, tc.shared, tc.err)
			}
		})
	}
}

// Nothing stays of work with RunAgain that crashed, nor of what Redis has forgotten.
func TestWorkThatLeftNothingIsDoneAgain(t *testing.T) {
	again := once
	again.Crash = lockmw.RunAgain
	l := locktest.New(t)
	crash(t, l, "42", again)
	if answer, shared, err := pay(l, "42", "new", again, nil); answer != "new" || shared || err != nil {
		t.Errorf("after a crash: Do = %q, %v, %v", answer, shared, err)
	}
	_, _, err := pay(l, "43", "lost", once, func(context.Context) { locktest.Lose(t, l, "pay:43") })
	if !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("who loses: %v, want %v", err, lockmw.ErrLost)
	}
	if answer, shared, err := pay(l, "43", "new", once, nil); answer != "new" || shared || err != nil {
		t.Errorf("after a loss: Do = %q, %v, %v", answer, shared, err)
	}
}

// Who waits for the answer of work that crashes is told. Here it crashes from outside.
func TestWhoWaitsForWorkThatCrashesIsTold(t *testing.T) {
	l := locktest.New(t)
	began, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := pay(l, "42", "dead", once, func(ctx context.Context) {
			close(began)
			<-ctx.Done()
		})
		first <- err
	}()
	<-began
	go func() {
		_, _, err := pay(l, "42", "", once, func(context.Context) { t.Error("the work is done again") })
		second <- err
	}()
	locktest.AwaitWaiters(t, l, "pay:42", 1)
	locktest.Crash(t, l)
	if err := <-first; !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("who crashes: %v, want %v", err, lockmw.ErrLost)
	}
	if err := <-second; !errors.Is(err, lockmw.ErrUncertain) {
		t.Errorf("who waits: %v, want %v", err, lockmw.ErrUncertain)
	}
}

// A dead process has no lock of any kind, and takes none from those who come next.
func TestNothingIsLockedAfterACrash(t *testing.T) {
	l := locktest.New(t)
	_, several, err := l.AcquireAll(context.Background(), []string{"a", "b"}, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	over := acquire(t, l, "over", lockmw.Policy{MaxHold: time.Millisecond})
	<-over.Context().Done()
	leases := []*lockmw.Lease{
		several, over,
		acquire(t, l, key, lockmw.Policy{}),
		acquire(t, l, "stays", lockmw.Policy{MinHold: time.Hour}),
		acquire(t, l, "read", lockmw.Policy{Mode: lockmw.Shared}),
		acquire(t, l, "read", lockmw.Policy{Mode: lockmw.Shared}),
		acquire(t, l, "place", lockmw.Policy{Permits: 2}),
	}
	locktest.Crash(t, l)
	if keys := locktest.Keys(t, l); len(keys) != 0 {
		t.Errorf("locked are %q", keys)
	}
	locktest.Hold(t, l, key)
	for _, lease := range leases {
		if lease.Context().Err() == nil || lease.Valid() {
			t.Errorf("%s: the work is not told", lease.Key())
		}
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("%s: release: %v, want %v", lease.Key(), err, lockmw.ErrLost)
		}
	}
	if keys := locktest.Keys(t, l); !slices.Equal(keys, []string{key}) {
		t.Errorf("locked are %q, want what Hold took", keys)
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon/2) // less than a TTL
	defer cancel()
	if err := l.Close(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("Close: %v, %v: it waits for what has crashed", err, ctx.Err())
	}
}

// The lock behind Idempotent goes as well: who waits for it has it, while the work that crashed goes on.
func TestTheLockBehindIdempotentIsFreeAfterACrash(t *testing.T) {
	l := locktest.New(t)
	charged := 0
	handler := shop(l, func(ctx context.Context, _ int64) error {
		if charged++; charged > 1 {
			return nil
		}
		leases := make(chan *lockmw.Lease, 1)
		go func() {
			defer close(leases)
			leases <- acquire(t, l, key, lockmw.Policy{Wait: soon / 2}) // less than a TTL
		}()
		locktest.AwaitWaiters(t, l, key, 1)
		locktest.Crash(t, l)
		return (<-leases).Release(ctx)
	})
	for _, c := range []struct {
		key  string
		want int
		code string
	}{
		{"k1", http.StatusInternalServerError, "LOCK_LOST"},
		{"k2", http.StatusOK, "paid"},
		{"k1", http.StatusConflict, "IDEMPOTENCY_UNCERTAIN"},
	} {
		if got := click(handler, "/orders/42/pay", c.key); got.Code != c.want || !strings.Contains(got.Body.String(), c.code) {
			t.Errorf("%s: %d %s, want %d %s", c.key, got.Code, got.Body, c.want, c.code)
		}
	}
	if charged != 2 {
		t.Errorf("charged %d times, want twice", charged)
	}
}

// What was kept before a crash is kept, also for a key that was locked in the crash.
func TestAnswersOutliveACrash(t *testing.T) {
	l := locktest.New(t)
	if _, _, err := pay(l, "42", "paid", once, nil); err != nil {
		t.Fatal(err)
	}
	acquire(t, l, "pay:42", lockmw.Policy{})
	locktest.Crash(t, l)
	if answer, shared, err := pay(l, "42", "new", once, nil); answer != "paid" || !shared || err != nil {
		t.Errorf("Do = %q, %v, %v", answer, shared, err)
	}
}

// Neither work that is under way nor work that has its answer is uncertain.
func TestUncertainIsWhatNobodyKnows(t *testing.T) {
	l := locktest.New(t)
	for _, k := range []string{"a", "a:b", "0"} {
		_, _, err := lockmw.Do(context.Background(), l, k, once, func(context.Context) (string, error) { return "", lockmw.ErrUncertain })
		if !errors.Is(err, lockmw.ErrUncertain) {
			t.Error(err)
		}
	}
	for _, k := range []string{"first", "second"} {
		_, _, err := pay(l, k, "paid", once, func(context.Context) {
			var keys []string
			for _, unknown := range locktest.Uncertain(t, l) {
				keys = append(keys, unknown.Key)
			}
			if want := []string{"pay:0", "pay:a", "pay:a:b"}; !slices.Equal(keys, want) {
				t.Errorf("uncertain is %q, want %q", keys, want)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// What runs without its lock has none that could be taken away.
func TestCrashWhileRedisIsDown(t *testing.T) {
	l := locktest.New(t)
	_, _, err := pay(l, "42", "dead", once, func(context.Context) {
		locktest.Down(t, l)
		open := acquire(t, l, "open", lockmw.Policy{FailOpen: true})
		locktest.Crash(t, l)
		if err := open.Release(context.Background()); err != nil {
			t.Errorf("without a lock: release: %v", err)
		}
	})
	if !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("who crashes: %v, want %v", err, lockmw.ErrLost)
	}
	if unknown := locktest.Uncertain(t, l); len(unknown) != 1 {
		t.Errorf("uncertain is %v, want one", unknown)
	}
	locktest.Up(t, l)
	if _, _, err := pay(l, "42", "", once, nil); !errors.Is(err, lockmw.ErrUncertain) {
		t.Errorf("the next one: %v, want %v", err, lockmw.ErrUncertain)
	}
}

// A crash without anything under way is a mistake of the test: it does not happen where its author thinks.
func TestCrashOfNothingFailsTheTest(t *testing.T) {
	l := locktest.New(t)
	locktest.Hold(t, l, key) // of another process
	if _, _, err := l.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Error(err)
	}
	_ = acquire(t, l, "released", lockmw.Policy{}).Release(context.Background())
	said := try(t, func(t testing.TB) { locktest.Crash(t, l) })
	if want := "locktest: Crash: the code under test holds no lock, so nothing of its work is under way"; said != want {
		t.Errorf("failure = %q, want %q", said, want)
	}
	if keys := locktest.Keys(t, l); !slices.Equal(keys, []string{key}) {
		t.Errorf("locked are %q, want what Hold took", keys)
	}
}
