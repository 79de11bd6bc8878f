package lockmw_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestManyKeysInAnyOrderDoNotDeadlock(t *testing.T) {
	s := redistest.Shared(t)
	prefix, c := redistest.Prefix(t), s.Client(t)
	lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
	const callers = 40
	orders := [][]string{{"x", "y"}, {"y", "x"}}
	var inside atomic.Int32
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			_, lease, err := lockers[i%2].AcquireAll(context.Background(), orders[i/2%2], lockmw.Policy{Prefix: prefix, Wait: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > 1 {
				t.Errorf("%d hold both keys", n)
			}
			inside.Add(-1)
			if err := lease.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d callers had two keys each after %v", callers, time.Since(began))
	noKeys(t, c, prefix, time.Second)
}

func TestPartOfManyKeysLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, prefix string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		holder := mustAcquire(t, other, "y", lockmw.Policy{Prefix: prefix})
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			_, _, err := l.AcquireAll(context.Background(), []string{"z", "y", "x", "y"}, lockmw.Policy{Prefix: prefix, Wait: wait})
			var refusal *lockmw.AcquireError
			if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.As(err, &refusal) || refusal.Key != prefix+"y" {
				t.Errorf("err = %v, want ErrNotAcquired of y", err)
			}
			noKeys(t, c, "x}", time.Second)
			noKeys(t, c, "z}", 0)
		}
		mustRelease(t, holder)
		noKeys(t, c, prefix, time.Second)
	})
}

func TestLosingOneOfManyKeysLosesAll(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, prefix string) {
		l := testenv.Open(t, c)
		keys := []string{"x", "y", "z"}
		for _, lost := range keys {
			_, whole, err := l.AcquireAll(context.Background(), keys, lockmw.Policy{Prefix: prefix, TTL: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if !whole.Valid() {
				t.Error("a new lease is not valid")
			}
			c.Del(context.Background(), "lock:{"+prefix+lost+"}")
			lockmw.RenewAll(l)
			select {
			case <-whole.Context().Done():
			case <-time.After(10 * time.Second):
				t.Fatalf("%s was lost and the work goes on", lost)
			}
			if cause := context.Cause(whole.Context()); !errors.Is(cause, lockmw.ErrLost) {
				t.Errorf("cause = %v, want ErrLost", cause)
			}
			if whole.Valid() {
				t.Error("the lease is valid after a loss")
			}
			if err := whole.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) || !strings.Contains(err.Error(), prefix+lost) {
				t.Errorf("release = %v, want ErrLost that names %s", err, lost)
			}
			noKeys(t, c, prefix, 2*time.Second) // the others are free
		}
	})
}

// The observers are told of each key once, in the order of the keys.
func TestObserversAreToldOfEachOfManyKeys(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	var seen events
	l := testenv.Open(t, c, seen.option())
	_, lease, err := l.AcquireAll(context.Background(), []string{"b", "c", "a"}, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, lease)
	mustRelease(t, lease) // again: the same answer, no effect
	for _, kind := range []lockmw.EventKind{lockmw.EventAcquired, lockmw.EventReleased} {
		var got []string
		for _, e := range seen.of(kind) {
			got = append(got, e.Key)
		}
		if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("%v: %q, want %q", kind, got, want)
		}
	}
}

// The first key comes free when most of the budget is used up; the second one
// gets what is left of it, and not the whole once more.
func TestManyKeysHaveOneBudget(t *testing.T) {
	for name, p := range map[string]lockmw.Policy{
		"wait":    {Wait: 1200 * time.Millisecond},
		"retries": {Retries: 8, RetryInterval: 100 * time.Millisecond}, // 0.8 to 1.6 s
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				c := s.Client(t)
				l, other := testenv.Open(t, c), testenv.Open(t, c)
				x := mustAcquire(t, other, "x", lockmw.Policy{})
				defer mustRelease(t, mustAcquire(t, other, "y", lockmw.Policy{}))
				freed := make(chan error, 1)
				const usedUp = 700 * time.Millisecond
				time.AfterFunc(usedUp, func() { freed <- x.Release(context.Background()) })
				began := time.Now()
				_, _, err := l.AcquireAll(context.Background(), []string{"x", "y"}, p)
				took := time.Since(began)
				if err := <-freed; err != nil {
					t.Error(err)
				}
				var refusal *lockmw.AcquireError
				if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.As(err, &refusal) || refusal.Key != "y" {
					t.Errorf("err = %v, want ErrNotAcquired of y", err)
				}
				t.Logf("gave up after %v", took)
				if took < p.Wait {
					t.Errorf("gave up after %v, before the budget of %v was used up", took, p.Wait)
				}
				if took >= 1750*time.Millisecond { // two budgets take 1.9 s, or nearly
					t.Errorf("gave up after %v, the second key had a budget of its own", took)
				}
			})
		})
	}
}

func TestMaxHoldOfManyKeysCountsFromWhenAllAreHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c := s.Client(t)
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		const max, wait = 300 * time.Millisecond, 400 * time.Millisecond
		y := mustAcquire(t, other, "y", lockmw.Policy{})
		freed := make(chan error, 1)
		time.AfterFunc(wait, func() { freed <- y.Release(context.Background()) })
		_, lease, err := l.AcquireAll(context.Background(), []string{"x", "y"}, lockmw.Policy{MaxHold: max, Wait: 20 * time.Second})
		held := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		if err := <-freed; err != nil {
			t.Error(err)
		}
		<-lease.Context().Done()
		if took := time.Since(held); took < max-50*time.Millisecond {
			t.Errorf("the context ended %v after all were held, want %v: x was held for longer", took, max)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrMaxHold) {
			t.Errorf("cause = %v, want ErrMaxHold", cause)
		}
		for _, key := range []string{"x", "y"} { // nobody else gets them before the release
			if _, _, err := other.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
				t.Errorf("%s beside a lease over its MaxHold: %v", key, err)
			}
		}
		mustRelease(t, lease)
		noKeys(t, c, "lock", time.Second)
	})
}

func TestFencesOfManyKeys(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	_, lease, err := l.AcquireAll(context.Background(), []string{"y", "x"}, lockmw.Policy{Prefix: "p:"})
	if err != nil {
		t.Fatal(err)
	}
	if x, y := lease.FenceOf("p:x"), lease.FenceOf("p:y"); x <= 0 || y <= 0 || lease.Fence() != 0 || lease.FenceOf("p:z") != 0 {
		t.Errorf("fences of x, y, all and z = %d, %d, %d, %d", x, y, lease.Fence(), lease.FenceOf("p:z"))
	}
	mustRelease(t, lease)
}

func TestManyKeysNeedAKey(t *testing.T) {
	l := testenv.Open(t, redistest.NewClient(t, "127.0.0.1:1"))
	_, _, err := l.AcquireAll(context.Background(), nil, lockmw.Policy{Prefix: "p:"})
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrInvalidPolicy) || !errors.As(err, &refusal) {
		t.Errorf("err = %v", err)
	}
}

// Close releases the first of many keys while the second is waited for. That is no loss, and Redis is well.
func TestManyKeysOfWhichCloseHasReleasedOneAreRefusedAsClosed(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	var l *lockmw.Locker
	l = testenv.Open(t, c, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventAcquired {
			if err := l.Close(over()); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
	}))
	mustAcquire(t, testenv.Open(t, c), "b", lockmw.Policy{})
	_, _, err := l.AcquireAll(context.Background(), []string{"a", "b"}, lockmw.Policy{Wait: time.Minute})
	if !errors.Is(err, lockmw.ErrClosed) || errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("err = %v, want ErrClosed alone", err)
	}
}

// The lock under which one of many keys is held ends while another is waited for. The caller is told why.
func TestManyKeysUnderALeaseThatEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		outer lockmw.Policy
		end   func(t *testing.T, other *lockmw.Locker, outer *lockmw.Lease)
		want  error
		code  string
	}{
		"it is released": {lockmw.Policy{}, func(t *testing.T, _ *lockmw.Locker, outer *lockmw.Lease) { mustRelease(t, outer) }, lockmw.ErrReleased, lockmw.CodeMisuse},
		"its MaxHold is over": {lockmw.Policy{MaxHold: 300 * time.Millisecond}, func(_ *testing.T, _ *lockmw.Locker, outer *lockmw.Lease) {
			<-outer.Context().Done()
		}, lockmw.ErrMaxHold, lockmw.CodeWaitTimeout},
		"it is lost": {lockmw.Policy{}, func(t *testing.T, other *lockmw.Locker, outer *lockmw.Lease) {
			if err := other.ForceRelease(context.Background(), outer.Key()); err != nil {
				t.Error(err)
			}
		}, lockmw.ErrUnavailable, lockmw.CodeBackendUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := redistest.Embedded(t).Client(t)
			var seen events
			l, other := testenv.Open(t, c, seen.option()), testenv.Open(t, c)
			mustAcquire(t, other, "b", lockmw.Policy{})
			outer := mustAcquire(t, l, "a", tt.outer)
			failed := make(chan error, 1)
			go func() { // with a context that does not end with the outer lease's
				_, _, err := l.AcquireAll(context.WithoutCancel(outer.Context()), []string{"a", "b"}, lockmw.Policy{Reentrant: true, Wait: time.Minute})
				failed <- err
			}()
			await.Until(t, "it waits for b", func() bool { return len(seen.of(lockmw.EventContended)) == 1 || len(failed) > 0 })
			tt.end(t, other, outer)
			lockmw.RenewAll(l)
			err := await.Receive(t, "the refusal", failed)
			if told, _ := lockmw.RefusalOf(err); !errors.Is(err, tt.want) || told.Code != tt.code {
				t.Errorf("err = %v (%s), want %v and %s", err, told.Code, tt.want, tt.code)
			}
		})
	}
}

// One of many keys is lost while another is waited for. The observers and the operators are told the same as the caller.
func TestTheReasonOfManyKeysOfWhichOneIsLost(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	var seen events
	l, other := testenv.Open(t, c, seen.option()), testenv.Open(t, c)
	mustAcquire(t, other, "b", lockmw.Policy{})
	failed := make(chan error, 1)
	go func() {
		_, _, err := l.AcquireAll(context.Background(), []string{"a", "b"}, lockmw.Policy{Wait: time.Minute})
		failed <- err
	}()
	await.Until(t, "it waits for b", func() bool { return len(seen.of(lockmw.EventContended)) == 1 })
	if err := other.ForceRelease(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	lockmw.RenewAll(l)
	err := await.Receive(t, "the refusal", failed)
	if !errors.Is(err, lockmw.ErrUnavailable) || errors.Is(err, lockmw.ErrLost) || !strings.Contains(err.Error(), `"a" was lost`) {
		t.Errorf("err = %v, want that a was lost, and ErrUnavailable alone", err)
	}
	refused := seen.of(lockmw.EventRefused)
	if len(refused) != 1 || refused[0].Key != "b" {
		t.Fatalf("told of %+v, want the refusal of b", refused)
	}
	told, _ := lockmw.RefusalOf(refused[0].Err)
	if e := refused[0]; e.Reason != told.Code || e.Holder != nil {
		t.Errorf("told the reason %q and the holder %v, want %q and nobody", e.Reason, e.Holder, told.Code)
	}
	if kept := incidents(l); !slices.ContainsFunc(kept, func(i recent.Incident) bool {
		return i.Kind == "refused" && i.Key == "b" && i.Reason == told.Code && i.Holder == ""
	}) {
		t.Errorf("kept: %+v, want the refusal of b for %q", kept, told.Code)
	}
}

// A program's note function that blocks does not keep Close waiting, for many keys as for one.
func TestANoteThatBlocksDoesNotHoldUpClose(t *testing.T) {
	for name, keys := range map[string][]string{"one key": {"a"}, "two keys": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			asked, free := make(chan struct{}, 2), make(chan struct{})
			l := testenv.Open(t, redistest.Embedded(t).Client(t), lockmw.WithNote(func(context.Context) string {
				asked <- struct{}{}
				<-free
				return ""
			}))
			failed := make(chan error, 1)
			go func() {
				_, _, err := l.AcquireAll(context.Background(), keys, lockmw.Policy{})
				failed <- err
			}()
			defer func() {
				close(free)
				if err := await.Receive(t, "the call", failed); !errors.Is(err, lockmw.ErrClosed) {
					t.Errorf("err = %v, want ErrClosed", err)
				}
			}()
			await.Receive(t, "the note is asked for", asked)
			closed := make(chan error, 1)
			go func() { closed <- l.Close(over()) }()
			if err := await.Receive(t, "Close", closed); err != nil {
				t.Error(err)
			}
		})
	}
}
