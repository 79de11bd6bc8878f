package lockmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// done takes the lock, does its work, and releases it: MinHold keeps the key taken then.
func done(t *testing.T, l *lockmw.Locker, key string, p lockmw.Policy) {
	t.Helper()
	p.MinHold = time.Minute
	mustRelease(t, mustAcquire(t, l, key, p))
}

// wantCoolDown fails the test unless err says that the key cools down after a MinHold of a minute, and nothing else.
func wantCoolDown(t *testing.T, what string, err error) {
	t.Helper()
	refused, ok := errors.AsType[*lockmw.AcquireError](err)
	if !ok || !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Fatalf("%s: %v, want ErrNotAcquired", what, err)
	}
	if refused.CoolingDown <= 30*time.Second || refused.CoolingDown > time.Minute || refused.RetryAfter != 0 || refused.Holder != nil {
		t.Errorf("%s: CoolingDown %v, RetryAfter %v, Holder %v; want most of a minute, 0 and nil", what, refused.CoolingDown, refused.RetryAfter, refused.Holder)
	}
	want := lockmw.Refusal{Status: 409, GRPCCode: 10, Code: "LOCK_COOLDOWN", Detail: "The same was done a moment ago."}
	if told, ok := lockmw.RefusalOf(err); told != want || !ok {
		t.Errorf("%s: %+v, want %+v", what, told, want)
	}
	if text := err.Error(); !strings.Contains(text, "cooling down for another ") || strings.Contains(text, "held by") {
		t.Errorf("%s: %q, want that it cools down, and no holder", what, text)
	}
}

// Nobody is at work under a key that MinHold keeps, and who asked again after it would do the work again.
func TestAKeyThatCoolsDownIsToldAsSuch(t *testing.T) {
	t.Parallel()
	deadline := func(l *lockmw.Locker, key string, p lockmw.Policy) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // Redis has to have answered by then
		defer cancel()
		_, _, err := l.Acquire(ctx, key, p)
		return err
	}
	acquire := func(l *lockmw.Locker, key string, p lockmw.Policy) error {
		_, _, err := l.Acquire(context.Background(), key, p)
		return err
	}
	for _, tc := range []struct {
		name       string
		does, asks lockmw.Policy
		how        func(*lockmw.Locker, string, lockmw.Policy) error
	}{
		{"one attempt", lockmw.Policy{}, lockmw.Policy{}, acquire},
		{"with a RetryAfter", lockmw.Policy{}, lockmw.Policy{RetryAfter: 5 * time.Second, MinHold: time.Minute}, acquire},
		{"Wait", lockmw.Policy{}, lockmw.Policy{Wait: 700 * time.Millisecond}, acquire}, // which Redis has to answer within
		{"Retries", lockmw.Policy{}, lockmw.Policy{Retries: 2, RetryInterval: 10 * time.Millisecond}, acquire},
		{"a deadline", lockmw.Policy{}, lockmw.Policy{Wait: time.Hour}, deadline},
		{"readers have done", lockmw.Policy{Mode: lockmw.Shared}, lockmw.Policy{}, acquire},
		{"a permit was used", lockmw.Policy{Permits: 1}, lockmw.Policy{Permits: 1, Wait: 700 * time.Millisecond}, acquire},
		{"a reader asks", lockmw.Policy{}, lockmw.Policy{Mode: lockmw.Shared}, acquire},
		{"several keys", lockmw.Policy{}, lockmw.Policy{}, func(l *lockmw.Locker, key string, p lockmw.Policy) error {
			_, _, err := l.AcquireAll(context.Background(), []string{key + "0", key}, p)
			return err
		}},
		{"WithLock", lockmw.Policy{}, lockmw.Policy{}, func(l *lockmw.Locker, key string, p lockmw.Policy) error {
			return l.WithLock(context.Background(), key, p, func(context.Context) error { return errors.New("it ran") })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			each(t, func(t *testing.T, c *redis.Client, key string) {
				l, other := testenv.Open(t, c), testenv.Open(t, c)
				done(t, l, key, tc.does)
				wantCoolDown(t, "another process", answered(func() error { return tc.how(other, key, tc.asks) }))
				wantCoolDown(t, "the same process", answered(func() error { return tc.how(l, key, tc.asks) }))
				if ran, err := other.Once(context.Background(), key, lockmw.Policy{}, func(context.Context) error { return nil }); ran || err != nil {
					t.Errorf("Once = %v, %v, want false, nil", ran, err)
				}
			})
		})
	}
}

// Whoever waits is told how it ends: the work was going on when it came.
func TestAWaiterLearnsThatTheWorkWasDone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		for _, waits := range []*lockmw.Locker{l, other} {
			lease := mustAcquire(t, l, key, lockmw.Policy{MinHold: time.Minute})
			refused := make(chan error, 1)
			go func() {
				_, _, err := waits.Acquire(context.Background(), key, lockmw.Policy{Wait: 1500 * time.Millisecond})
				refused <- err
			}()
			await.Within(t, 10*time.Second, "it waits", func() bool { return lockmw.Waiting(waits, key) == 1 })
			mustRelease(t, lease)
			wantCoolDown(t, "a waiter", <-refused)
			if err := l.ForceRelease(context.Background(), key); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What was said of one holder is not said of the next.
func TestTheNextHolderDoesNotCoolDown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		for _, p := range []lockmw.Policy{{}, {Mode: lockmw.Shared}, {Permits: 1}} {
			done(t, l, key, p)
			if err := l.ForceRelease(context.Background(), key); err != nil {
				t.Fatal(err)
			}
			lease := mustAcquire(t, l, key, p)
			_, _, err := other.Acquire(context.Background(), key, lockmw.Policy{})
			refused, _ := errors.AsType[*lockmw.AcquireError](err)
			if told, _ := lockmw.RefusalOf(err); told.Code != lockmw.CodeBusy || told.RetryAfter < time.Second || refused.CoolingDown != 0 {
				t.Errorf("%s: %+v, %+v; want %s and a RetryAfter", name(p), told, refused, lockmw.CodeBusy)
			}
			mustRelease(t, lease)
		}
	})
}

// A claim that has seen a cool-down, and then one of its own process at work, tells of that one.
func TestAnEndedCoolDownIsNotTold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{MinHold: 2 * time.Second})) // so long that the two come before it is over
		first := lineUp(t, l, key, lockmw.Policy{Wait: time.Minute}, 1)
		_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 4 * time.Second})
		if told, _ := lockmw.RefusalOf(err); told.Code != lockmw.CodeWaitTimeout {
			t.Errorf("%v: %s, want %s", err, told.Code, lockmw.CodeWaitTimeout)
		}
		mustRelease(t, <-first)
	})
}

func TestTheLogOfACoolDownNamesNoHolder(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var log logBuffer
		l := testenv.Open(t, c, log.option(), lockmw.WithInstance("shop"))
		done(t, l, key, lockmw.Policy{Prefix: "pay:"})
		_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Prefix: "pay:"})
		wantCoolDown(t, "the same process", err)
		var line string
		await.Within(t, 10*time.Second, "a line", func() bool {
			line = strings.Join(log.lines(), "\n")
			return line != ""
		})
		for _, want := range []string{"level=INFO", "reason=LOCK_COOLDOWN", "cooling down for another "} {
			if !strings.Contains(line, want) {
				t.Errorf("%q, want %q in it", line, want)
			}
		}
		for _, unwanted := range []string{"held by", "shop", "context"} {
			if strings.Contains(line, unwanted) {
				t.Errorf("%q, want nothing about %q", line, unwanted)
			}
		}
	})
}

func TestInspectTellsACoolDown(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		for _, p := range []lockmw.Policy{{}, {Mode: lockmw.Shared}, {Permits: 2}} {
			done(t, l, key, p)
			got := []lockmw.Info{mustInspect(t, other, key)}
			for info, err := range other.List(context.Background(), key) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, info)
			}
			if len(got) != 2 {
				t.Fatalf("%s: List told of %d locks, want 1", name(p), len(got)-1)
			}
			for _, info := range got {
				if info.Held || !info.CoolingDown || len(info.Holders) != 1 || !info.Holders[0].CoolingDown || info.Holders[0].Instance != l.Instance() {
					t.Errorf("%s: %+v, want a cool-down after one of %s", name(p), info, l.Instance())
				}
				text, err := json.Marshal(info)
				if err != nil || !strings.Contains(string(text), `"held":false,"cooling_down":true`) || strings.Count(string(text), `"cooling_down":true`) != 2 {
					t.Errorf("%s: %s, %v; want that it cools down, of the lock and of who has had it", name(p), text, err)
				}
				var back lockmw.Info
				if err := json.Unmarshal(text, &back); err != nil || !back.CoolingDown || !back.Holders[0].CoolingDown {
					t.Errorf("%s: read again %+v, %v", name(p), back, err)
				}
			}
			if p.Mode == lockmw.Shared {
				lease := mustAcquire(t, l, key, p)
				if info := mustInspect(t, other, key); !info.Held || info.CoolingDown || len(info.Holders) != 2 {
					t.Errorf("one at work beside one that has done: %+v, want that it is held", info)
				}
				mustRelease(t, lease)
			}
			if err := l.ForceRelease(context.Background(), key); err != nil {
				t.Fatal(err)
			}
			if info := mustInspect(t, other, key); info.Held || info.CoolingDown {
				t.Errorf("%s: %+v after the release by force, want a free lock", name(p), info)
			}
		}
	})
}

// onAllNodes has locks taken until all nodes know of one, and returns its key: two of three are a majority, if the third is slow. A node knows of it if
// it has the Redis key of the lock with the end that is given.
func onAllNodes(t *testing.T, ns nodes, end string, take func(key string)) (key string) {
	t.Helper()
	tries := 0
	await.Until(t, "all nodes know of the lock", func() bool {
		tries++
		key = fmt.Sprint("k", tries)
		take(key)
		return !slices.ContainsFunc(ns, func(n *redistest.Server) bool {
			return n.Client(t).Exists(t.Context(), "lock:{"+key+"}"+end).Val() == 0
		})
	})
	return key
}

func TestAMajorityTellsOfACoolDown(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ns := newNodes(t, 3)
	l, other := ns.locker(t), ns.locker(t)
	key := onAllNodes(t, ns, ":holders", func(key string) { done(t, l, key, lockmw.Policy{}) }) // a mutex has it from its release on
	ns[0].Kill()
	for _, p := range []lockmw.Policy{{}, {Wait: 50 * time.Millisecond}} {
		_, _, err := other.Acquire(context.Background(), key, p)
		wantCoolDown(t, "with one node down", err)
	}
	if info := mustInspect(t, other, key); info.Held || !info.CoolingDown || len(info.Holders) != 1 {
		t.Errorf("%+v, want a cool-down", info)
	}
	if ran, err := other.Once(context.Background(), key, lockmw.Policy{}, func(context.Context) error { return nil }); ran || err != nil {
		t.Errorf("Once = %v, %v, want false, nil", ran, err)
	}
}

// While the lock is held that a nested call has joined, somebody is at work, whatever that call's MinHold. With its
// release the key cools down, also for one that would have joined.
func TestAKeyCoolsDownAfterANestedCallsMinHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		ctx, outer, err := l.Acquire(context.Background(), key, lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		_, inner, err := l.Acquire(ctx, key, lockmw.Policy{Reentrant: true, MinHold: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, inner)
		_, _, err = other.Acquire(context.Background(), key, lockmw.Policy{})
		if told, _ := lockmw.RefusalOf(err); told.Code != lockmw.CodeBusy {
			t.Errorf("while the outer call is at work: %v: %s, want %s", err, told.Code, lockmw.CodeBusy)
		}
		mustRelease(t, outer)
		for what, asks := range map[string]*lockmw.Locker{"another process": other, "the same process": l} {
			_, _, err = asks.Acquire(context.Background(), key, lockmw.Policy{Reentrant: true})
			wantCoolDown(t, what, err)
		}
	})
}

// What has failed can be tried again at once, unless MinHoldOnError says that it cools down, too.
func TestFailedWorkCoolsDownWithMinHoldOnError(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, onError := range []bool{false, true} {
		for what, work := range map[string]func(l *lockmw.Locker, key string, p lockmw.Policy) error{
			"WithLock": func(l *lockmw.Locker, key string, p lockmw.Policy) error {
				return l.WithLock(context.Background(), key, p, func(context.Context) error { return failed })
			},
			"MarkFailed": func(l *lockmw.Locker, key string, p lockmw.Policy) error {
				_, lease, err := l.Acquire(context.Background(), key, p)
				if err != nil {
					return err
				}
				lease.MarkFailed()
				return errors.Join(failed, lease.Release(context.Background()))
			},
		} {
			each(t, func(t *testing.T, c *redis.Client, key string) {
				l, other := testenv.Open(t, c), testenv.Open(t, c)
				p := lockmw.Policy{MinHold: time.Minute, MinHoldOnError: onError}
				if err := work(l, key, p); !errors.Is(err, failed) {
					t.Fatalf("%s: %v", what, err)
				}
				_, lease, err := other.Acquire(context.Background(), key, p)
				if onError {
					wantCoolDown(t, what, err)
					return
				}
				if err != nil {
					t.Fatalf("%s without MinHoldOnError: %v, want the lock", what, err)
				}
				lease.MarkFailed()
				mustRelease(t, lease)
			})
		}
	}
}

// After a term the key cools down for the leader's MinHold, and nobody leads until that is over.
func TestNobodyLeadsWhileTheKeyCoolsDown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		ended := func(context.Context) error { return nil }
		if err := l.Leader(key, lockmw.Policy{MinHold: time.Minute}).Run(context.Background(), ended); err != nil {
			t.Fatal(err)
		}
		_, _, err := other.Acquire(context.Background(), key, lockmw.Policy{})
		wantCoolDown(t, "one that is no leader", err)
		led, leads := make(chan error, 1), make(chan struct{})
		go func() {
			led <- other.Leader(key, lockmw.Policy{RetryInterval: 10 * time.Millisecond}).Run(context.Background(), func(context.Context) error {
				close(leads)
				return nil
			})
		}()
		await.Until(t, "it campaigns", func() bool { return mustInspect(t, l, key).Waiting == 1 })
		if info := mustInspect(t, l, key); !info.CoolingDown || info.Held {
			t.Errorf("%+v, want a cool-down", info)
		}
		select {
		case <-leads:
			t.Error("it leads while the key cools down")
		default:
		}
		if err := l.ForceRelease(context.Background(), key); err != nil {
			t.Fatal(err)
		}
		if err := await.Receive(t, "its term", led); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// Who came back when the work is done would find the key cooling down, or do the work once more.
func TestMinHoldInvitesNobodyWhileTheWorkGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		mustAcquire(t, l, "k", lockmw.Policy{MinHold: 5 * time.Second})
		for name, tc := range map[string]struct {
			policy lockmw.Policy
			code   string
			after  bool
		}{
			"at once":           {lockmw.Policy{MinHold: 5 * time.Second}, lockmw.CodeBusy, false},
			"after a wait":      {lockmw.Policy{MinHold: 5 * time.Second, Wait: 50 * time.Millisecond}, lockmw.CodeWaitTimeout, false},
			"with a RetryAfter": {lockmw.Policy{MinHold: 5 * time.Second, RetryAfter: 7 * time.Second}, lockmw.CodeBusy, true},
			"without MinHold":   {lockmw.Policy{}, lockmw.CodeBusy, true},
		} {
			_, _, err := other.Acquire(t.Context(), "k", tc.policy)
			refusal, _ := lockmw.RefusalOf(err)
			if refusal.Code != tc.code || (refusal.RetryAfter > 0) != tc.after {
				t.Errorf("%s: %s, and it is told %v", name, refusal.Code, refusal.RetryAfter)
			}
		}
	})
}
