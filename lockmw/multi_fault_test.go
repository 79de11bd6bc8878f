package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A connection that breaks is no reason to run without the locks of many keys, or
// to refuse them.
func TestManyKeysAreLockedAfterABrokenConnection(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]lockmw.Policy{
		"one attempt":               {},
		"one attempt, fails open":   {FailOpen: true},
		"waits":                     {Wait: 20 * time.Second},
		"waits and then fails open": {Wait: 20 * time.Second, FailOpen: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, m *redistest.Mini) {
				client, proxy := proxied(t, m)
				l := testenv.Open(t, client)
				take := func() *lockmw.Lease {
					_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, p)
					if err != nil {
						t.Fatal(err)
					}
					return lease
				}
				mustRelease(t, take()) // the scripts are loaded
				proxy.DropReplies(1, faultproxy.Match("evalsha"))
				lease := take()
				for _, key := range []string{"a", "b", "c"} {
					if !m.Exists("lock:{"+key+"}") || lease.FenceOf(key) == 0 {
						t.Errorf("%s is not locked", key)
					}
				}
				mustRelease(t, lease)
				noKeys(t, m.Client(t), "lock", 5*time.Second)
			})
		})
	}
}

// Where the connection breaks, a key that somebody else holds is waited for, or
// refused: the policy fails open only while Redis is away.
func TestManyKeysOfWhichOneIsHeldAreWaitedForAfterABrokenConnection(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			t.Parallel()
			m := redistest.Embedded(t)
			client, proxy := proxied(t, m)
			var seen events
			l, other := testenv.Open(t, client, seen.option()), testenv.Open(t, m.Client(t))
			holder := mustAcquire(t, other, "b", lockmw.Policy{})
			mustRelease(t, mustAcquire(t, l, "first", lockmw.Policy{}))
			proxy.DropReplies(1, faultproxy.Match("evalsha"))
			done := make(chan error, 1)
			go func() {
				_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, lockmw.Policy{Wait: wait, FailOpen: true})
				if err == nil {
					if _, other, errHeld := other.Acquire(context.Background(), "b", lockmw.Policy{}); errHeld == nil {
						_ = other.Release(context.Background())
						err = errors.New("it runs without the lock of b")
					}
					err = errors.Join(err, lease.Release(context.Background()))
				}
				done <- err
			}()
			if wait == 0 {
				if err := <-done; !errors.Is(err, lockmw.ErrNotAcquired) {
					t.Errorf("err = %v, want ErrNotAcquired", err)
				}
				mustRelease(t, holder)
				return
			}
			await.Within(t, 10*time.Second, "it waits for b", func() bool { return len(seen.of(lockmw.EventContended)) == 1 || len(done) > 0 })
			mustRelease(t, holder)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// Many keys are given back at the same time: sixteen one after the other would
// take a second where Redis is 60 ms away. Rounds can be slow for other reasons, such as
// connections that are made and a busy machine, but none is quicker than one after the other.
func TestManyKeysAreReleasedTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	client, proxy := proxied(t, s)
	l := testenv.Open(t, client)
	var keys []string
	for i := range 16 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	const distance = 60 * time.Millisecond // there and back
	proxy.Delay(faultproxy.Both, distance/2)
	for round := 1; ; round++ {
		_, lease, err := l.AcquireAll(context.Background(), keys, lockmw.Policy{Wait: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		mustRelease(t, lease)
		took := time.Since(began)
		t.Logf("16 keys were released in %v", took.Round(time.Millisecond))
		noKeys(t, s.Client(t), "lock", time.Second)
		if took <= 8*distance {
			return
		}
		if round == 5 {
			t.Fatalf("16 keys were never released in less than %v, at a distance of %v", 8*distance, distance)
		}
	}
}

// A context that ends while Redis has the command gives the same error for many
// keys as for one: nothing is known of Redis, and no key is said to be held.
func TestManyKeysGiveUpLikeOne(t *testing.T) {
	type ending struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		is   error
	}
	const patience = 20 * time.Millisecond
	cause := errors.New("the client left")
	endings := []ending{
		{"cancelled", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(patience, cancel)
			return ctx, cancel
		}, context.Canceled},
		{"cancelled for a reason", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(patience, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, cause},
		{"deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), patience)
		}, context.DeadlineExceeded},
	}
	for _, p := range []lockmw.Policy{{}, {FailOpen: true}, {Wait: time.Minute}} {
		for _, end := range endings {
			t.Run(fmt.Sprint(end.name, " ", p.Wait, " ", p.FailOpen), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *redistest.Mini) {
					client, proxy := proxied(t, s)
					l := testenv.Open(t, client)
					mustRelease(t, mustAcquire(t, l, "first", lockmw.Policy{})) // connects
					proxy.Delay(faultproxy.Both, patience)
					ask := func(keys ...string) string {
						ctx, cancel := end.ctx()
						defer cancel()
						_, lease, err := l.AcquireAll(ctx, keys, p)
						if err == nil {
							mustRelease(t, lease)
							return "a lease"
						}
						if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, end.is) {
							t.Errorf("%q: err = %v, want %v and %v", keys, err, lockmw.ErrNotAcquired, end.is)
						}
						var refusal *lockmw.AcquireError
						if !errors.As(err, &refusal) {
							t.Fatal(err)
						}
						return refusal.Err.Error()
					}
					one, many := ask("a"), ask("a", "b")
					if one != many {
						t.Errorf("one key: %s; many: %s", one, many)
					}
					noKeys(t, s.Client(t), "lock", 5*time.Second)
				})
			})
		}
	}
}

// Whoever leaves while he waits for one of many keys is not kept by a Redis that
// does not answer. What he had is given back when it does.
func TestWhoLeavesWithSomeOfManyKeysIsNotKept(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	client, proxy := proxied(t, s)
	var seen events
	l, other := testenv.Open(t, client, seen.option()), testenv.Open(t, s.Client(t))
	holder := mustAcquire(t, other, "b", lockmw.Policy{})
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, _, err := l.AcquireAll(ctx, []string{"a", "b"}, lockmw.Policy{Wait: time.Minute})
		failed <- err
	}()
	await.Within(t, 10*time.Second, "it waits for b", func() bool { return len(seen.of(lockmw.EventContended)) == 1 })
	proxy.Stall(faultproxy.Both)
	left := time.Now()
	cancel()
	if err := <-failed; !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("err = %v, want ErrNotAcquired", err)
	}
	if took := time.Since(left); took > 600*time.Millisecond+machine.Between(left, time.Now()) {
		t.Errorf("back %v after the context's end", took)
	}
	proxy.Heal()
	mustRelease(t, holder)
	noKeys(t, s.Client(t), "lock", 10*time.Second)
}

// A budget that is used up by the first of many keys is used up for all: sixteen
// attempts one after the other would take more than a second.
func TestManyKeysEndWithTheirBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		var keys []string
		for i := range 16 {
			keys = append(keys, fmt.Sprintf("k%02d", i))
		}
		mustRelease(t, mustAcquire(t, l, "first", lockmw.Policy{})) // there is a connection
		defer mustRelease(t, mustAcquire(t, other, "k15", lockmw.Policy{}))
		proxy.Delay(faultproxy.Both, 60*time.Millisecond)
		began := time.Now()
		_, _, err := l.AcquireAll(context.Background(), keys, lockmw.Policy{Wait: 100 * time.Millisecond})
		if took := time.Since(began); !errors.Is(err, lockmw.ErrNotAcquired) || took > 1200*time.Millisecond {
			t.Errorf("after %v: %v, want ErrNotAcquired soon after 100 ms", took, err)
		}
	})
}
