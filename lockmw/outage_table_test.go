package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The tests here hold the times that docs/policy.md gives for an outage, where no other
// test does.

// A call in an outage's first second, by a policy that fails closed.
func TestTheFirstSecondOfAnOutage(t *testing.T) {
	for kind, o := range outages {
		for name, tc := range map[string]struct {
			wait            time.Duration
			atLeast, atMost time.Duration
		}{
			"no Wait":    {0, o.sure, 1250 * time.Millisecond},
			"Wait 100ms": {100 * time.Millisecond, max(100*time.Millisecond, o.sure), 350 * time.Millisecond},
			"Wait 500ms": {500 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond},
			"Wait 2s":    {2 * time.Second, time.Second, 1250 * time.Millisecond},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					p := lockmw.Policy{Wait: tc.wait}
					mustRelease(t, mustAcquire(t, l, "k", p))
					o.begin(w, m)
					wantUnavailable(t, l, p, tc.atLeast, tc.atMost)
				})
			})
		}
	}
}

// The same by a policy that has Retries alone: it waits for them, but for no longer than others.
func TestTheFirstSecondOfAnOutageWithRetries(t *testing.T) {
	for kind, o := range outages {
		t.Run(kind, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
				p := lockmw.Policy{Retries: 3, RetryInterval: 100 * time.Millisecond} // 300 to 600 ms
				most := 600 * time.Millisecond
				if o.sure > 0 { // its first command waits for an answer, too
					most = 1250 * time.Millisecond
				}
				mustRelease(t, mustAcquire(t, l, "k", p))
				o.begin(w, m)
				wantUnavailable(t, l, p, 300*time.Millisecond, most)
			})
		})
	}
}

// Whoever waits for a lock that somebody holds when Redis goes away.
func TestWaitersAreToldOfAnOutage(t *testing.T) {
	for kind, o := range outages {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, FailOpen %t", kind, open), func(t *testing.T) {
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					held := mustAcquire(t, l, "k", lockmw.Policy{})
					var began time.Time
					var wg sync.WaitGroup
					for range 20 {
						wg.Go(func() {
							_, lease, err := l.Acquire(context.Background(), "k", lockmw.Policy{Wait: time.Hour, FailOpen: open})
							if after := time.Since(began); after > 1250*time.Millisecond {
								t.Errorf("told %v after the outage began", after)
							}
							switch {
							case !open && !errors.Is(err, lockmw.ErrUnavailable):
								t.Errorf("err = %v, want ErrUnavailable", err)
							case open && (err != nil || lease.Fence() != 0):
								t.Errorf("%v, %v, want to run without the lock", lease, err)
							case open:
								mustRelease(t, lease)
							}
						})
					}
					time.Sleep(3 * time.Second)
					began = time.Now()
					o.begin(w, m)
					wg.Wait()
					endOutage(w, m)
					mustRelease(t, held)
				})
			})
		}
	}
}

// Holders are told in time, and only if the outage lasts.
func TestHoldersInAnOutage(t *testing.T) {
	for kind, o := range outages {
		for _, lasts := range []time.Duration{10 * time.Second, time.Hour} {
			t.Run(fmt.Sprint(kind, " for ", lasts), func(t *testing.T) {
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					var leases []*lockmw.Lease // of all ages: they are renewed every 9 to 11 s
					for range 25 {
						leases = append(leases, mustAcquire(t, l, time.Now().String(), lockmw.Policy{}))
						time.Sleep(500 * time.Millisecond)
					}
					began := time.Now()
					o.begin(w, m)
					if lasts < time.Minute {
						time.Sleep(lasts)
						endOutage(w, m)
						time.Sleep(time.Minute)
						for _, lease := range leases {
							mustRelease(t, lease)
						}
						return
					}
					var wg sync.WaitGroup
					for _, lease := range leases {
						wg.Go(func() {
							<-lease.Context().Done()
							after := time.Since(began)
							if after < 15*time.Second || after > 27*time.Second || !errors.Is(context.Cause(lease.Context()), lockmw.ErrLost) {
								t.Errorf("told %v after the outage began: %v", after, context.Cause(lease.Context()))
							}
						})
					}
					wg.Wait()
					endOutage(w, m)
				})
			})
		}
	}
}

// lasts is how long a holder goes on when Redis stops, at least and at most, counted from then, by the policy's TTL. docs/policy.md
// has these figures. Those of one digit behind the point are rounded, and those without one are cut off.
type lasts map[time.Duration]span

type span struct{ atLeast, atMost time.Duration }

func seconds(atLeast, atMost float64) span {
	return span{time.Duration(atLeast * float64(time.Second)), time.Duration(atMost * float64(time.Second))}
}

var (
	wasFree           = lasts{30 * time.Second: seconds(26, 27), 5 * time.Second: seconds(4.3, 4.45), time.Second: seconds(0.65, 0.95)}
	handedOver        = lasts{30 * time.Second: seconds(1.6, 1.8), 5 * time.Second: seconds(1.6, 1.8), time.Second: seconds(0.65, 0.95)}
	passedOnByAWaiter = lasts{30 * time.Second: seconds(26, 27), 5 * time.Second: seconds(4, 5), time.Second: seconds(0.65, 0.95)}
	handedOverEarlier = lasts{30 * time.Second: seconds(26, 27), 5 * time.Second: seconds(4.25, 4.35), time.Second: seconds(0.65, 0.95)}
)

// A getter is a way to a lock.
type getter struct {
	name   string
	handed bool  // by a release that tells a waiter
	docs   lasts // when Redis stops within 100 ms
	get    func() *lockmw.Lease
}

// Redis stops right after a lock was taken, or handed over, or a moment later.
func TestALockThatWasHandedOverRightBeforeAnOutage(t *testing.T) {
	const firstRenewal = 100 * time.Millisecond
	for _, ttl := range []time.Duration{30 * time.Second, 5 * time.Second, time.Second} {
		for _, after := range []time.Duration{0, firstRenewal / 2, firstRenewal - time.Millisecond, 2 * firstRenewal} {
			t.Run(fmt.Sprintf("TTL %v, Redis stops after %v", ttl, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *redistest.Mini) {
					client, proxy := proxied(t, s)
					ways := waysToALock(t, testenv.Open(t, client), testenv.Open(t, s.Client(t)), ttl)
					leases := make([]*lockmw.Lease, len(ways))
					for i, way := range ways {
						leases[i] = way.get()
						if left := time.Until(leases[i].ValidUntil()); way.handed && left > 2*time.Second {
							t.Errorf("%s: valid for %v when it comes, want two seconds at most", way.name, left)
						}
					}
					time.Sleep(after)
					synctest.Wait()
					proxy.BlackHole(faultproxy.Both)
					stopped := time.Now()
					var all sync.WaitGroup
					for i, way := range ways {
						want := way.docs[ttl]
						if after > firstRenewal {
							want = handedOverEarlier[ttl]
							if !way.handed {
								continue // the documentation has no figure
							}
							if left := leases[i].ValidUntil().Sub(stopped); left < ttl*9/10-after {
								t.Errorf("%s: valid for %v behind the first renewal, want the whole TTL", way.name, left)
							}
						}
						all.Go(func() {
							<-leases[i].Context().Done()
							lasted, cause := time.Since(stopped), context.Cause(leases[i].Context())
							if lasted < want.atLeast || lasted > want.atMost || !errors.Is(cause, lockmw.ErrLost) {
								t.Errorf("%s: ended %v after Redis stopped, by %v, want %v to %v", way.name, lasted, cause, want.atLeast, want.atMost)
							}
						})
					}
					all.Wait()
					proxy.Heal()
				})
			})
		}
	}
}

// waysToALock returns ways to locks of l with this TTL, of which each has been prepared: who is to have the lock waits.
func waysToALock(t *testing.T, l, other *lockmw.Locker, ttl time.Duration) (ways []getter) {
	t.Helper()
	waits := func(p lockmw.Policy) lockmw.Policy { // until it is told
		p.Wait, p.RetryInterval = time.Hour, 10*time.Second
		return p
	}
	mutex := lockmw.Policy{TTL: ttl}
	behind := func(from *lockmw.Locker, key string, before, p lockmw.Policy) func() *lockmw.Lease {
		holder := mustAcquire(t, from, key, before)
		next := lineUp(t, l, key, waits(p), 1)
		return func() *lockmw.Lease {
			mustRelease(t, holder)
			return await.Receive(t, key, next)
		}
	}
	mustRelease(t, mustAcquire(t, l, "listens", waits(mutex)))
	time.Sleep(time.Second)
	for kind, p := range map[string]lockmw.Policy{
		"a writer": mutex, "a reader": {TTL: ttl, Mode: lockmw.Shared}, "one with a permit": {TTL: ttl, Permits: 1},
	} {
		before := mutex
		if p.Permits > 0 {
			before = p
		}
		free, fromOther, fromOwn := kind+": free", kind+": from another process", kind+": from a call of its process"
		ways = append(ways,
			getter{free, false, wasFree, func() *lockmw.Lease { return mustAcquire(t, l, free, p) }},
			getter{fromOther, true, handedOver, behind(other, fromOther, before, p)},
			getter{fromOwn, true, handedOver, behind(l, fromOwn, before, p)})
	}
	long := "a writer: from a call of its process that had waited, and had it for long"
	ways = append(ways, getter{long, true, handedOver, behind(l, long, waits(mutex), mutex)})
	time.Sleep(time.Second) // whoever is first in line of its process asks Redis within 0.8 s
	short := "a writer: from a call of its process that had waited, and had it for a moment"
	ways = append(ways, getter{short, false, passedOnByAWaiter, behind(l, short, waits(mutex), mutex)})
	time.Sleep(100 * time.Millisecond)
	return ways
}

// The work is done, and its lock cannot be given back.
func TestAReleaseInAnOutageIsBounded(t *testing.T) {
	for kind, o := range outages {
		t.Run(kind, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
				early, late := mustAcquire(t, l, "early", lockmw.Policy{}), mustAcquire(t, l, "late", lockmw.Policy{})
				o.begin(w, m)
				for _, lease := range []*lockmw.Lease{early, late} {
					began := time.Now()
					if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrUnavailable) {
						t.Errorf("%v, want ErrUnavailable", err)
					}
					if after := time.Since(began); after > 1100*time.Millisecond {
						t.Errorf("Release took %v", after)
					}
					time.Sleep(3 * time.Second)
				}
				endOutage(w, m)
				wantLocked(t, l, lockmw.Policy{}, time.Second)
				began := time.Now()
				for _, key := range []string{"early", "late"} {
					mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{Wait: time.Minute}))
				}
				if after := time.Since(began); after > 5*time.Second {
					t.Errorf("given back %v after locks are taken again", after)
				}
			})
		})
	}
}
