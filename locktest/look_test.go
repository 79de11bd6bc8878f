package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// Callers that AwaitWaiters has seen have the lock in the order in which they came.
func TestAwaitedWaitersStandInOrder(t *testing.T) {
	for name, p := range map[string]lockmw.Policy{
		"exclusive": {Wait: 10 * soon}, "permits": {Wait: 10 * soon, Permits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := locktest.New(t)
			release := locktest.Hold(t, l, key)
			const callers = 20
			served := make(chan int, callers)
			for i := range callers {
				go func() {
					_, lease, err := l.Acquire(context.Background(), key, p)
					served <- i
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					_ = lease.Release(context.Background())
				}()
				locktest.AwaitWaiters(t, l, key, i+1)
			}
			locktest.AwaitWaiters(t, l, key, 1) // or more
			release()
			for i := range callers {
				if got := <-served; got != i {
					t.Fatalf("number %d came %d.", got+1, i+1)
				}
			}
			locktest.AwaitWaiters(t, l, key, 0)
		})
	}
}

// A caller whose first question is under way does not stand in the queue yet, and one
// that the lock is free for never does.
func TestCallersThatDoNotWaitAreNotAwaited(t *testing.T) {
	l := locktest.New(t)
	locktest.Hurry(t, l, 50*time.Millisecond)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := acquire(t, l, key, lockmw.Policy{Wait: soon}).Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	said := try(t, func(t testing.TB) { locktest.AwaitWaiters(t, l, key, 1) })
	close(stop)
	<-stopped
	if !strings.Contains(said, " = 0 after 50ms") {
		t.Errorf("failure = %q, though nobody waits", said)
	}
}

func TestAwaitWaitersAwaitsThatAllHaveLeft(t *testing.T) {
	l := locktest.New(t)
	locktest.Hold(t, l, key)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error)
	go func() {
		_, _, err := l.Acquire(ctx, key, lockmw.Policy{Retries: lockmw.Forever})
		left <- err
	}()
	locktest.AwaitWaiters(t, l, key, 1)
	cancel()
	locktest.AwaitWaiters(t, l, key, 0)
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}

func TestAwaitWaitersFailsTheTest(t *testing.T) {
	option, contended := contentions()
	l := locktest.New(t, option)
	release := locktest.Hold(t, l, key)
	leases := waiting(t, l, contended)
	acquire(t, l, "order:41", lockmw.Policy{})
	for _, tc := range []struct {
		key  string
		n    int
		want string
	}{
		{key, 2, `waiters for "order:42" = 1 after 50ms, want 2; it is locked; asked for were: "order:41"`},
		{key, 0, `waiters for "order:42" = 1 after 50ms, want 0; it is locked; asked for were: "order:41"`},
		{"order:41", 1, `waiters for "order:41" = 0 after 50ms, want 1; it is locked; asked for were: "order:42"`},
		{"order:43", 1, `waiters for "order:43" = 0 after 50ms, want 1; it is not locked; asked for were: "order:41", "order:42"`},
		{key, -1, `n is -1, want how many callers are to wait for "order:42"`},
	} {
		locktest.Hurry(t, l, 50*time.Millisecond)
		said := try(t, func(t testing.TB) { locktest.AwaitWaiters(t, l, tc.key, tc.n) })
		if want := "locktest: AwaitWaiters: " + tc.want; said != want {
			t.Errorf("got  %s\nwant %s", said, want)
		}
	}
	release()
	<-leases
}

func TestKeysAreThoseThatAreLocked(t *testing.T) {
	l := locktest.New(t)
	want := func(when string, keys ...string) {
		t.Helper()
		if got := locktest.Keys(t, l); !slices.Equal(got, keys) {
			t.Errorf("%s: %q, want %q", when, got, keys)
		}
	}
	want("at the start")
	pay := acquire(t, l, "42", lockmw.Policy{Prefix: "order:"})
	want("one", "order:42")
	release := locktest.Hold(t, l, "b")
	read := acquire(t, l, "a:b", lockmw.Policy{Mode: lockmw.Shared})
	also := acquire(t, l, "a:b", lockmw.Policy{Mode: lockmw.Shared})
	place := acquire(t, l, "a", lockmw.Policy{Permits: 2})
	want("several", "a", "a:b", "b", "order:42")
	if err := l.WithLocks(context.Background(), []string{"y", "x"}, lockmw.Policy{}, func(context.Context) error {
		want("inside", "a", "a:b", "b", "order:42", "x", "y")
		return nil
	}); err != nil {
		t.Error(err)
	}
	_, _, err := l.Acquire(context.Background(), "b", lockmw.Policy{}) // is refused, and locks nothing
	if !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Error(err)
	}
	release()
	for _, lease := range []*lockmw.Lease{pay, read, place} {
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	want("one reader is left", "a:b")
	locktest.Lose(t, l, "a:b")
	want("after a loss")
	if err := also.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Error(err)
	}
	stays := acquire(t, l, "stays", lockmw.Policy{MinHold: time.Minute})
	if err := stays.Release(context.Background()); err != nil {
		t.Error(err)
	}
	want("MinHold", "stays")
}

// What Redis has beside a lock, such as who waits for it, is no lock.
func TestKeysOfWaitersAreNotLocked(t *testing.T) {
	option, contended := contentions()
	l := locktest.New(t, option)
	lease := acquire(t, l, key, lockmw.Policy{})
	release := locktest.Hold(t, l, "other")
	leases := waiting(t, l, contended)
	if got := fmt.Sprintf("%q", locktest.Keys(t, l)); got != `["order:42" "other"]` {
		t.Errorf("keys: %s", got)
	}
	release()
	acquire(t, l, "other", lockmw.Policy{})
	_ = lease.Release(context.Background())
	<-leases
}

// Those who wait for an answer are awaited as those who wait for a lock.
func TestAwaitWaitersAwaitsCallsOfDo(t *testing.T) {
	for name, held := range map[string]bool{"while it is made": false, "while others have the lock": true} {
		t.Run(name, func(t *testing.T) {
			l := locktest.New(t)
			const callers = 3
			answers := make(chan string, callers)
			ask := func() {
				answer, _, err := pay(l, "42", "paid", once, nil)
				if err != nil {
					t.Error(err)
				}
				answers <- answer
			}
			wait := func() {
				for i := range callers {
					if n := seam.Waiting(l, "pay:42"); n != i {
						t.Errorf("%d wait, want %d: each counts once, and who is at work does not wait", n, i)
					}
					go ask()
					locktest.AwaitWaiters(t, l, "pay:42", i+1)
				}
				for other := range 1000 {
					if n := seam.Waiting(l, fmt.Sprint("pay:other", other)); n != 0 {
						t.Fatalf("%d wait for another key", n)
					}
				}
			}
			if held {
				release := locktest.Hold(t, l, "pay:42")
				wait()
				release()
			} else if _, _, err := pay(l, "42", "paid", once, func(context.Context) { wait() }); err != nil {
				t.Error(err)
			}
			for range callers {
				if answer := <-answers; answer != "paid" {
					t.Errorf("answer = %q", answer)
				}
			}
			locktest.AwaitWaiters(t, l, "pay:42", 0)
		})
	}
}
