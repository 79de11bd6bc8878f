package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// async is a policy whose releases are not awaited.
var async = lockmw.Policy{TTL: 3 * time.Second, Wait: 2 * time.Second, AsyncRelease: true}

// A Release that is not awaited takes no time, however far away Redis is, and the lock is free a moment later, for whatever
// kind of lock.
func TestAnAsyncReleaseDoesNotWait(t *testing.T) {
	for name, change := range map[string]func(*lockmw.Policy){
		"mutex":   func(*lockmw.Policy) {},
		"reader":  func(p *lockmw.Policy) { p.Mode = lockmw.Shared },
		"permit":  func(p *lockmw.Policy) { p.Permits = 2 },
		"minhold": func(p *lockmw.Policy) { p.MinHold = 300 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				l := testenv.Open(t, client)
				p := async
				change(&p)
				mustRelease(t, mustAcquire(t, l, key+"first", p))
				proxy.Delay(faultproxy.Both, 100*time.Millisecond)
				lease := mustAcquire(t, l, key, p)
				several, err := acquireAll(l, []string{key + "a", key + "b"}, p)
				if err != nil {
					t.Fatal(err)
				}
				for _, held := range []*lockmw.Lease{lease, several} {
					began := time.Now()
					if err := held.Release(context.Background()); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > 0 {
						t.Errorf("Release took %v", took)
					}
					if held.Valid() || !errors.Is(context.Cause(held.Context()), lockmw.ErrReleased) {
						t.Error("the lease goes on after its release")
					}
				}
				noKeys(t, s.Client(t), key, 650*time.Millisecond)
			})
		})
	}
}

func acquireAll(l *lockmw.Locker, keys []string, p lockmw.Policy) (*lockmw.Lease, error) {
	_, lease, err := l.AcquireAll(context.Background(), keys, p)
	return lease, err
}

// Whoever asks for the key after a Release has returned does not find its own Locker there, by whatever call, though
// connections overtake each other and that caller does not wait.
func TestNobodyMeetsAReleaseOfItsOwnLocker(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		once := lockmw.Policy{TTL: 3 * time.Second}
		var warm sync.WaitGroup
		for i := range 8 { // some connections, which do not keep the order
			warm.Go(func() { mustRelease(t, mustAcquire(t, l, fmt.Sprint(key, i), once)) })
		}
		warm.Wait()
		proxy.Delay(faultproxy.ToServer, 20*time.Millisecond)
		for i := range 20 {
			lease := mustAcquire(t, l, key, async)
			s.Client(t).ScriptFlush(context.Background()) // the release has to be sent once more
			mustRelease(t, lease)
			switch i % 4 {
			case 0:
				info, err := l.Inspect(context.Background(), key)
				if err != nil || info.Held {
					t.Fatalf("Inspect = %v, %v, want a lock that is free", info, err)
				}
			case 1:
				if err := l.ForceRelease(context.Background(), key); err != nil {
					t.Fatal(err)
				}
			case 2:
				_, lease, err := l.AcquireAll(context.Background(), []string{key, key + "other"}, once)
				if err != nil {
					t.Fatal(err)
				}
				mustRelease(t, lease)
			default:
				_, lease, err := l.Acquire(context.Background(), key, once)
				if err != nil {
					t.Fatal(err)
				}
				mustRelease(t, lease)
			}
		}
	})
}

// A release that has to be sent again is not overtaken by a later call of its Locker that is carried out at once: Redis knows the
// scripts of that call, and has forgotten the release's.
func TestNothingOvertakesAReleaseThatIsSentAgain(t *testing.T) {
	type world struct {
		l     *lockmw.Locker // each of its commands takes 20 ms
		other *lockmw.Locker
		proxy *faultproxy.Proxy
		key   string
		lost  func() int // how often a lease of l was lost
	}
	ctx := context.Background()
	for name, prepare := range map[string]func(t *testing.T, w world) (teach, comes func()){
		// Otherwise it would find the key taken, and ask for one key after the other.
		"AcquireAll": func(t *testing.T, w world) (teach, comes func()) {
			t.Helper()
			all := func(l *lockmw.Locker, key string) *lockmw.Lease {
				lease, err := acquireAll(l, []string{key, key + "2"}, lockmw.Policy{TTL: 3 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return lease
			}
			var first *lockmw.Lease
			return func() { first = all(w.other, w.key+"other") }, func() {
				before := w.proxy.Commands()["SET"]
				lease := all(w.l, w.key)
				if n := w.proxy.Commands()["SET"] - before; n > 0 {
					t.Errorf("%d keys were asked for by themselves, want all in one step", n)
				}
				mustRelease(t, lease)
				mustRelease(t, first)
			}
		},
		// Otherwise it would take the lock from the lease, whose release would then find it lost.
		"ForceRelease": func(t *testing.T, w world) (teach, comes func()) {
			t.Helper()
			force := func(l *lockmw.Locker, key string) {
				if err := l.ForceRelease(ctx, key); err != nil {
					t.Error(err)
				}
			}
			return func() { force(w.other, w.key+"other") }, func() {
				force(w.l, w.key)
				time.Sleep(time.Second) // in the bubble: whatever is under way is over then
				if n := w.lost(); n > 0 {
					t.Errorf("%d leases were lost that had been released before", n)
				}
			}
		},
		// Otherwise it would be told that somebody has the lock, and may be at work.
		"Resolve": func(t *testing.T, w world) (teach, comes func()) {
			t.Helper()
			begun := func(l *lockmw.Locker, key string) (resolve func()) {
				panics(t, l, key, uncertain)
				id := wantUncertain(t, l, key, uncertain)
				return func() {
					if err := l.Resolve(ctx, key, id, lockmw.Again); err != nil {
						t.Errorf("Resolve = %v", err)
					}
				}
			}
			return begun(w.other, w.key+"other"), begun(w.l, w.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				client, proxy := proxied(t, s)
				var seen events
				w := world{
					l: testenv.Open(t, client, seen.option()), other: testenv.Open(t, s.Client(t)), proxy: proxy, key: redistest.Prefix(t),
					lost: func() int { return len(seen.of(lockmw.EventLost)) },
				}
				teach, comes := prepare(t, w)
				lease := mustAcquire(t, w.l, w.key, async)
				s.Client(t).ScriptFlush(ctx)
				teach()
				proxy.Delay(faultproxy.ToServer, 20*time.Millisecond)
				mustRelease(t, lease)
				comes()
			})
		})
	}
}

// So it is while a renewal is in flight, and where the release has to be sent again because its connection broke.
func TestNobodyMeetsAReleaseThatTakesLonger(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, p *faultproxy.Proxy) (after func()){
		"a renewal is in flight": func(t *testing.T, p *faultproxy.Proxy) func() {
			t.Helper()
			sent := p.Commands()["EVALSHA"]
			p.Delay(faultproxy.ToServer, 100*time.Millisecond)
			await.Within(t, 5*time.Second, "a renewal is on its way", func() bool { return p.Commands()["EVALSHA"] > sent })
			return func() {}
		},
		"the connection breaks": func(_ *testing.T, p *faultproxy.Proxy) func() {
			p.BlackHole(faultproxy.ToServer)
			return func() { p.Heal(); p.Cut() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				l := testenv.Open(t, client)
				p := async
				p.MinHold = time.Millisecond // which is over by then
				lease := mustAcquire(t, l, key, p)
				time.Sleep(2 * p.MinHold)
				after := before(t, proxy)
				began := time.Now()
				mustRelease(t, lease)
				if took := time.Since(began); took > 0 {
					t.Errorf("Release took %v", took)
				}
				after()
				_, next, err := l.Acquire(context.Background(), key, lockmw.Policy{})
				if err != nil {
					t.Fatal(err)
				}
				mustRelease(t, next)
			})
		})
	}
}

// A call that waits for the answer to a release does so for no longer than its own time, nor than its context goes on.
func TestWhoWaitsForAReleaseKeepsItsOwnTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		lease := mustAcquire(t, l, key, async)
		proxy.BlackHole(faultproxy.Both)
		mustRelease(t, lease)
		began := time.Now()
		_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 100 * time.Millisecond})
		if took := time.Since(began); err == nil || took > 400*time.Millisecond {
			t.Errorf("Acquire = %v after %v, want an error after 350 ms: the connection hangs for 100, and then Redis's answer is awaited for 250 at least", err, took)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		began = time.Now()
		_, _, err = l.Acquire(ctx, key, lockmw.Policy{Wait: time.Second})
		if took := time.Since(began); err == nil || took > 60*time.Millisecond {
			t.Errorf("Acquire = %v after %v, want an error after 50 ms", err, took)
		}
		proxy.Heal()
	})
}

// A release is sent again soon where its connection hangs and somebody waits for it: the next caller has the lock within the time
// that each command has at least, although a first try has 400 ms otherwise.
func TestAReleaseOverAConnectionThatHangsDoesNotTakeTheNextCallersTime(t *testing.T) {
	for name, lost := range map[string]faultproxy.Direction{"the release is lost": faultproxy.ToServer, "the reply is lost": faultproxy.ToClient} {
		for _, away := range []time.Duration{0, 20 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, %v away", name, away), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *redistest.Mini) {
					key := redistest.Prefix(t)
					client, proxy := proxied(t, s)
					var seen events
					l := testenv.Open(t, client, seen.option())
					proxy.Delay(faultproxy.ToServer, away)
					lease := mustAcquire(t, l, key, async)
					proxy.Busiest().BlackHole(lost)
					mustRelease(t, lease)
					began := time.Now()
					_, next, err := l.Acquire(context.Background(), key, lockmw.Policy{TTL: 3 * time.Second, Wait: 250 * time.Millisecond})
					if took := time.Since(began); err != nil || took > 250*time.Millisecond {
						t.Fatalf("Acquire = %v after %v, want the lock within 250 ms", err, took)
					}
					mustRelease(t, next)
					if n := len(seen.of(lockmw.EventLost)); n != 0 {
						t.Errorf("%d EventLost, want none", n)
					}
				})
			})
		}
	}
}

// longLeases takes n locks whose keys begin with prefix, and which stay for a minute unless they are given back.
func longLeases(t *testing.T, l *lockmw.Locker, prefix string, n int) (leases []*lockmw.Lease) {
	t.Helper()
	p := async
	p.TTL = time.Minute
	for i := range n {
		leases = append(leases, mustAcquire(t, l, fmt.Sprint(prefix, i), p))
	}
	return leases
}

// While Redis is away a Release returns at once, the failure is logged, and the lock is given back when Redis has returned.
func TestAnAsyncReleaseWhileRedisIsAway(t *testing.T) {
	for name, away := range map[string]func(*faultproxy.Proxy){
		"silent":        func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) },
		"does not read": func(p *faultproxy.Proxy) { p.StopReading() },
		"cut":           func(p *faultproxy.Proxy) { p.Refuse(true); p.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				var seen events
				l := testenv.Open(t, client, seen.option())
				leases := longLeases(t, l, key, 5)
				away(proxy)
				for _, lease := range leases {
					began := time.Now()
					if err := lease.Release(context.Background()); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > 10*time.Millisecond {
						t.Errorf("Release took %v", took)
					}
				}
				if n := len(seen.of(lockmw.EventReleased)); n != 5 {
					t.Errorf("%d EventReleased, want 5", n)
				}
				time.Sleep(3 * time.Second)
				proxy.Refuse(false)
				proxy.Heal()
				noKeys(t, s.Client(t), key, 2*time.Second)
				if n := len(seen.of(lockmw.EventLost)); n != 0 {
					t.Errorf("%d EventLost, want none", n)
				}
			})
		})
	}
}

// A lock that Redis has forgotten is told as lost after its release.
func TestAnAsyncReleaseOfALostLockIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		c := s.Client(t)
		var seen events
		l := testenv.Open(t, c, seen.option())
		lease := mustAcquire(t, l, key, async)
		c.Del(context.Background(), "lock:{"+key+"}")
		if err := lease.Release(context.Background()); err != nil {
			t.Errorf("Release = %v, want nil: nobody has asked Redis", err)
		}
		await.Within(t, time.Second, "EventLost", func() bool { return len(seen.of(lockmw.EventLost)) == 1 })
		if n := len(seen.of(lockmw.EventReleased)); n != 1 {
			t.Errorf("%d EventReleased, want 1", n)
		}
	})
}

// Close returns nil only when the releases that nobody awaits are carried out, or sees to them.
func TestCloseWaitsForAsyncReleases(t *testing.T) {
	for name, fault := range map[string]func(*faultproxy.Proxy){
		"far away":          func(p *faultproxy.Proxy) { p.Delay(faultproxy.Both, 100*time.Millisecond) },
		"connections break": func(p *faultproxy.Proxy) { p.Cut() },
		"replies are lost":  func(p *faultproxy.Proxy) { p.DropReplies(3, faultproxy.Match("EVALSHA")) },
		"requests are lost": func(p *faultproxy.Proxy) {
			p.BlackHole(faultproxy.ToServer)
			time.AfterFunc(300*time.Millisecond, p.Heal)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				l := testenv.Open(t, client)
				leases := longLeases(t, l, key, 3)
				fault(proxy)
				for _, lease := range leases {
					mustRelease(t, lease)
				}
				if err := l.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				if left := keysOf(t, s.Client(t), key); len(left) > 0 {
					t.Errorf("Close returned nil, and Redis has %q", left)
				}
			})
		})
	}
}

// Redis may not have heard of a release that keeps its key for MinHold and was given up. Close sends it again, with what is left
// of that time, or says that it could not: otherwise the key would stay taken for its TTL.
func TestCloseSeesToAReleaseThatStays(t *testing.T) {
	forms := map[string]func(p *lockmw.Policy) (keys int){
		"a mutex":      func(*lockmw.Policy) int { return 1 },
		"a reader":     func(p *lockmw.Policy) int { p.Mode = lockmw.Shared; return 1 },
		"a permit":     func(p *lockmw.Policy) int { p.Permits = 2; return 1 },
		"several keys": func(*lockmw.Policy) int { return 3 },
	}
	for name, test := range map[string]struct{ async, back bool }{
		"not awaited, and Redis is back":      {async: true, back: true},
		"not awaited, and Redis stays silent": {async: true},
		"awaited, and Redis is back":          {back: true},
		"awaited, and Redis stays silent":     {},
	} {
		for form, of := range forms {
			t.Run(form+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *redistest.Mini) {
					p := async
					p.TTL, p.MinHold, p.AsyncRelease = 30*time.Second, 5*time.Second, test.async
					closesAfterALostStay(t, s, p, of(&p), test.back)
				})
			})
		}
	}
}

// closesAfterALostStay has the release of a lock, or of several, be lost that keeps their keys for the policy's MinHold, and
// Close called before that is over. Redis is back by then, or not.
func closesAfterALostStay(t *testing.T, s *redistest.Mini, p lockmw.Policy, keys int, back bool) {
	t.Helper()
	ctx, prefix := context.Background(), redistest.Prefix(t)
	client, proxy := proxied(t, s)
	var log testenv.Journal
	l := testenv.Open(t, client, log.Option())
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprint(prefix, i))
	}
	_, lease, err := l.AcquireAll(ctx, names, p)
	if err != nil {
		t.Fatal(err)
	}
	over := time.Now().Add(p.MinHold)
	time.Sleep(100 * time.Millisecond)
	proxy.BlackHole(faultproxy.Both)
	if err := lease.Release(ctx); (err == nil) != p.AsyncRelease {
		t.Errorf("Release = %v", err)
	}
	await.Within(t, 2*time.Second, "the release is given up", func() bool { return log.Count("release failed") > 0 })
	if back {
		proxy.Cut()
		proxy.Heal()
	}
	began := time.Now()
	err = l.Close(ctx)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Close took %v", took)
	}
	if !back {
		if !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("Close = %v, want ErrUnavailable: what is left stays taken for its TTL", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(over) - 10*time.Millisecond)
	for _, name := range names {
		if len(keysOf(t, s.Client(t), name)) == 0 {
			t.Error("a key was free before its MinHold was over")
		}
	}
	noKeys(t, s.Client(t), prefix, 2*time.Second) // of several holders a second is added
}

// Those who wait have the lock as soon as after a release that is awaited: of the same Locker, and of another one.
func TestAnAsyncReleaseServesThoseWhoWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		own, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		var mu sync.Mutex
		var fences []int64
		var all sync.WaitGroup
		holders := 0
		for i := range 40 {
			l := own
			if i%2 == 1 {
				l = other
			}
			all.Go(func() {
				p := async
				p.Wait = time.Minute
				if i%5 == 0 {
					p.TTL = 4 * time.Second // not to be passed on to by the others
				}
				_, lease, err := l.Acquire(context.Background(), key, p)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if holders++; holders > 1 {
					t.Error("two have the lock")
				}
				fences = append(fences, lease.Fence())
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				holders--
				mu.Unlock()
				mustRelease(t, lease)
			})
		}
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("40 turns of 10 ms took %v", took)
		}
		for i := 1; i < len(fences); i++ {
			if fences[i] <= fences[i-1] {
				t.Errorf("fence %d after %d", fences[i], fences[i-1])
			}
		}
		noKeys(t, s.Client(t), key, time.Second)
	})
}

// holdUp has the next script come to Redis later by wait, and returns a channel that is closed when that time begins.
func holdUp(p *faultproxy.Proxy, wait time.Duration) <-chan struct{} {
	comes, came := make(chan struct{}), new(atomic.Bool)
	p.Between(faultproxy.Match("EVALSHA"), func(_, _ []byte) {
		if !came.Swap(true) {
			close(comes)
			time.Sleep(wait)
		}
	})
	return comes
}

// A release waits for a renewal that is in flight, in the background: carried out later, that would keep the key for a TTL and
// not for its MinHold. Later calls for the key come behind the release all the same.
func TestAnAsyncReleaseComesBehindARenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		p := async
		p.TTL, p.MinHold = 30*time.Second, 12*time.Second
		lease := mustAcquire(t, l, key, p)
		await.ReceiveWithin(t, p.MinHold, "a renewal is on its way", holdUp(proxy, 100*time.Millisecond))
		began := time.Now()
		mustRelease(t, lease)
		if took := time.Since(began); took > 0 {
			t.Errorf("Release took %v", took)
		}
		if info := mustInspect(t, l, key); info.Held || !info.CoolingDown {
			t.Errorf("Inspect = %+v right after Release, want that the key cools down", info)
		}
		_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{})
		if refused, ok := errors.AsType[*lockmw.AcquireError](err); !ok || refused.CoolingDown == 0 {
			t.Errorf("Acquire = %v, want that the key cools down", err)
		}
		time.Sleep(time.Second)
		if left := s.Client(t).PTTL(context.Background(), "lock:{"+key+"}").Val(); left > p.MinHold {
			t.Errorf("the key is there for %v more, want at most %v", left, p.MinHold)
		}
	})
}

// The tries of a release that waits for a renewal have their time from when the first is sent. Counted from the call, the first one had
// none left behind a renewal of half a second, and behind one of nearly a second none could be answered.
func TestAnAsyncReleaseBehindASlowRenewalHasItsTime(t *testing.T) {
	for _, slow := range []time.Duration{500 * time.Millisecond, 940 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				var log testenv.Journal
				l, other := testenv.Open(t, client, log.Option()), testenv.Open(t, s.Client(t))
				p := async
				p.TTL, p.MinHold = 30*time.Second, 20*time.Second
				teaches := mustAcquire(t, other, key+"other", p)
				time.Sleep(p.TTL / 2) // it is renewed
				mustRelease(t, teaches)

				lease := mustAcquire(t, l, key, p)
				await.ReceiveWithin(t, p.TTL/2, "a renewal is on its way", holdUp(proxy, slow))
				sent := proxy.Commands()["EVALSHA"]
				proxy.Delay(faultproxy.Both, 30*time.Millisecond)
				mustRelease(t, lease)
				time.Sleep(slow - 10*time.Millisecond)
				if n := proxy.Commands()["EVALSHA"] - sent; n != 0 {
					t.Error("the release has overtaken the renewal")
				}
				time.Sleep(2 * time.Second)
				if n := proxy.Commands()["EVALSHA"] - sent; n != 2 {
					t.Errorf("%d commands, want the renewal and one release", n)
				}
				if n := log.Count("release failed"); n > 0 {
					t.Errorf("the release is told as failed, though Redis answers: %s", log.Text())
				}
				if left := s.Client(t).PTTL(context.Background(), "lock:{"+key+"}").Val(); left <= 0 || left > p.MinHold {
					t.Errorf("the key is there for %v more, want at most %v", left, p.MinHold)
				}
			})
		})
	}
}

// A release that is not awaited comes behind a renewal, which has a second where its connection hangs. Whoever asks meanwhile is
// answered all the same, within its own second and over other connections: it is not told that Redis does not answer. Who may wait does.
func TestWhoAsksWhileAReleaseIsHeldUpIsAnswered(t *testing.T) {
	ctx := context.Background()
	const usual, long = 1250 * time.Millisecond, 5 * time.Second
	for name, c := range map[string]struct {
		want   error
		within time.Duration
		ask    func(l *lockmw.Locker, key, work string) error
	}{
		"Acquire": {lockmw.ErrNotAcquired, usual, func(l *lockmw.Locker, key, _ string) error {
			_, _, err := l.Acquire(ctx, key, lockmw.Policy{})
			return err
		}},
		"Acquire, with a Wait": {nil, long, func(l *lockmw.Locker, key, _ string) error {
			_, _, err := l.Acquire(ctx, key, lockmw.Policy{Wait: long}) // which it gets when the key has cooled down
			return err
		}},
		"AcquireAll": {lockmw.ErrNotAcquired, usual, func(l *lockmw.Locker, key, _ string) error {
			_, err := acquireAll(l, []string{key, key + "other"}, lockmw.Policy{})
			return err
		}},
		"ForceRelease": {nil, usual, func(l *lockmw.Locker, key, _ string) error { return l.ForceRelease(ctx, key) }},
		"Inspect": {nil, usual, func(l *lockmw.Locker, key, _ string) error {
			_, err := l.Inspect(ctx, key)
			return err
		}},
		"Resolve": {lockmw.ErrNotAcquired, usual, func(l *lockmw.Locker, key, work string) error {
			return l.Resolve(ctx, key, work, lockmw.Again) // which is refused while the key is taken
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				l := testenv.Open(t, client)
				panics(t, l, key, uncertain)
				work := wantUncertain(t, l, key, uncertain)
				p := async
				p.TTL, p.MinHold = 30*time.Second, 12*time.Second
				lease := mustAcquire(t, l, key, p)
				proxy.Delay(faultproxy.ToServer, 20*time.Millisecond)
				proxy.DropReplies(1, faultproxy.MatchScript(redisstore.Scripts()["renew"]), faultproxy.KeepOpen())
				await.Within(t, 15*time.Second, "a renewal that gets no reply", func() bool { return proxy.Dropped() > 0 })
				mustRelease(t, lease)
				began := time.Now()
				err := c.ask(l, key, work)
				if took := time.Since(began); !errors.Is(err, c.want) || errors.Is(err, lockmw.ErrUnavailable) || took > c.within {
					t.Errorf("%v after %v, want %v within %v", err, took, c.want, c.within)
				}
			})
		})
	}
}

// Some releases are confirmed whatever the policy says: while the Locker is closed, of a quorum, and of a leader.
func TestWhatIsConfirmedAlways(t *testing.T) {
	t.Run("Close", func(t *testing.T) {
		c := redistest.Embedded(t).Client(t)
		l := testenv.Open(t, c)
		lease := mustAcquire(t, l, "k", async)
		c.Del(context.Background(), "lock:{k}")
		closed := make(chan error, 1)
		go func() { closed <- l.Close(context.Background()) }()
		await.Until(t, "it is closed", func() bool {
			_, other, err := l.Acquire(context.Background(), "other", lockmw.Policy{})
			if err == nil {
				mustRelease(t, other)
			}
			return errors.Is(err, lockmw.ErrClosed)
		})
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
		if err := await.Receive(t, "Close", closed); err != nil {
			t.Error(err)
		}
	})
	t.Run("quorum", func(t *testing.T) {
		ns := newNodes(t, 3)
		lease := mustAcquire(t, ns.locker(t), "k", async)
		for _, n := range ns {
			n.Client(t).Del(context.Background(), "lock:{k}")
		}
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
	t.Run("Leader", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *redistest.Mini) {
			client, proxy := proxied(t, s)
			p := election
			p.Retries, p.AsyncRelease = lockmw.Forever, true
			leader := testenv.Open(t, client).Leader("k", p)
			err := leader.Run(context.Background(), func(context.Context) error {
				proxy.Delay(faultproxy.ToServer, 100*time.Millisecond)
				return nil
			})
			if err != nil || s.Exists("lock:{k}") {
				t.Errorf("Run = %v, and the lock is there still: %v", err, s.Exists("lock:{k}"))
			}
		})
	})
}

// A policy that does not wait, and so would have its own client refused, is none.
func TestAsyncReleaseNeedsAWait(t *testing.T) {
	for _, p := range []lockmw.Policy{{AsyncRelease: true}, {AsyncRelease: true, TTL: time.Second}} {
		if err := p.Validate(); !errors.Is(err, lockmw.ErrInvalidPolicy) {
			t.Errorf("Validate(%+v) = %v, want ErrInvalidPolicy", p, err)
		}
	}
	for _, p := range []lockmw.Policy{{AsyncRelease: true, Wait: time.Second}, {AsyncRelease: true, Retries: 1}} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
}
