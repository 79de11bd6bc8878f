package lockmw_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// takers are goroutines of one Locker that take turns on one key until the test ends, and
// what is seen of them.
type takers struct {
	l      *lockmw.Locker
	key    string
	hold   time.Duration
	policy lockmw.Policy

	turns  atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup
	inside *inside
}

// inside is the work that a lock guards. Several crowds may share it.
type inside struct {
	n     atomic.Int64
	fence atomic.Int64
	next  atomic.Int64 // leases with the fence after the last one's: the lock was passed on within a process
}

// enter notes that a lease begins its work.
func (i *inside) enter(t *testing.T, lease *lockmw.Lease) {
	if n := i.n.Add(1); n != 1 {
		t.Errorf("%d are inside", n)
	}
	switch last := i.fence.Swap(lease.Fence()); {
	case lease.Fence() <= last:
		t.Errorf("fence %d after %d, want a higher one", lease.Fence(), last)
	case lease.Fence() == last+1:
		i.next.Add(1)
	}
}

func (i *inside) leave() { i.n.Add(-1) }

// gather has n goroutines take turns. The first turns are over when it returns, and l is
// told of others who wait.
func gather(t *testing.T, l *lockmw.Locker, key string, n int, hold time.Duration, in *inside) *takers {
	t.Helper()
	c := &takers{l: l, key: key, hold: hold, policy: patient, stop: make(chan struct{}), inside: in}
	for range n {
		c.all.Go(func() { c.take(t) })
	}
	t.Cleanup(c.disperse)
	await.Within(t, 20*time.Second, "everybody has had some turns", func() bool { return c.turns.Load() > int64(4*n) })
	return c
}

func (c *takers) take(t *testing.T) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		lease, err := askedAgain(c.l, c.key, c.policy)
		if err != nil {
			t.Error(err)
			return
		}
		c.inside.enter(t, lease)
		c.turns.Add(1)
		if c.hold > 0 {
			time.Sleep(c.hold)
		}
		c.inside.leave()
		asked := time.Now()
		if err := lease.Release(context.Background()); err != nil && !errors.Is(err, lockmw.ErrLost) && !unanswered(err, asked) {
			t.Error(err)
		}
	}
}

// disperse ends the turns, and waits for the end of the last one.
func (c *takers) disperse() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.all.Wait()
}

func TestTurnsWithinAProcessCostNoCommands(t *testing.T) {
	slow.Test(t)
	client, proxy := proxied(t, redistest.Shared(t))
	l, key := testenv.Open(t, client), redistest.Prefix(t)
	c := gather(t, l, key, 16, 0, new(inside))
	before := c.turns.Load()
	proxy.ResetCommands()
	began := time.Now()
	time.Sleep(2 * time.Second)
	turns := c.turns.Load() - before
	seconds := time.Since(began).Seconds()
	got := proxy.Commands()
	t.Logf("%d turns, commands %v", turns, got)
	// A slow machine makes fewer turns in the second after which Redis is asked.
	if n := got["EVALSHA"] + got["EVAL"] + got["SET"]; float64(n) > max(float64(turns)/100, 4*seconds) {
		t.Errorf("%d commands for %d turns", n, turns)
	}
	c.disperse()
	noKeys(t, redistest.Shared(t).Client(t), key, time.Second)
}

// Those of one process come before and behind one of another. All wait for a lock that the
// first process has, which learns of the other by a message.
func TestTheOrderHoldsOverProcessesWithinATenure(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		warm := mustAcquire(t, l, "warm", patient) // l listens
		time.Sleep(time.Second)
		mustRelease(t, warm)
		holder := mustAcquire(t, l, "k", patient)
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 30 {
			at := l
			if i%10 == 5 {
				at = other
			}
			all.Go(func() {
				lease := mustAcquire(t, at, "k", patient)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				mustRelease(t, lease)
			})
			time.Sleep(5 * time.Millisecond) // they come 5 ms apart
		}
		mustRelease(t, holder)
		all.Wait()
		if !slices.IsSorted(order) || len(order) != 30 {
			t.Errorf("served in the order %v", order)
		}
	})
}

// Whoever joins while another process has the lock waits for those who came before, and
// for no more, also if that process is not told of it: then for about a second.
func TestWhoJoinsWhileATenureLasts(t *testing.T) {
	const workers, hold = 8, 10 * time.Millisecond
	for name, tc := range map[string]struct {
		deaf bool
		most time.Duration
	}{
		"told":     {false, (workers + 2) * hold},
		"not told": {true, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
				if tc.deaf {
					lockmw.Deafen(l)
				}
				in := new(inside)
				c := gather(t, l, "k", workers, hold, in)
				defer c.disperse()
				var longest time.Duration
				for i := range 12 {
					time.Sleep(time.Duration(1700+237*i) * time.Millisecond) // at any time of a tenure
					asked := time.Now()
					lease := mustAcquire(t, other, "k", patient)
					longest = max(longest, time.Since(asked))
					in.enter(t, lease)
					in.leave()
					mustRelease(t, lease)
				}
				t.Logf("waited for %v at most", longest)
				if longest > tc.most {
					t.Errorf("waited for %v, want %v at most", longest, tc.most)
				}
			})
		})
	}
}

// Locks pass on within a process whatever its client is, whatever the way to Redis, and
// whoever watches, and another process has its turns between.
func TestTurnsPassOnWithinAProcessWithAnyClient(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	for name, connect := range map[string]func(t *testing.T) (of func() redis.UniversalClient){
		"Cluster": func(t *testing.T) func() redis.UniversalClient {
			t.Helper()
			c := redistest.Cluster(t)
			return func() redis.UniversalClient { return c.Client(t) }
		},
		"Sentinel": func(t *testing.T) func() redis.UniversalClient {
			t.Helper()
			w := redistest.Sentinel(t)
			return func() redis.UniversalClient { return w.Client(t) }
		},
		"TLS": func(t *testing.T) func() redis.UniversalClient {
			t.Helper()
			addr, config := redistest.TLS(t, redistest.Shared(t).Addr())
			return func() redis.UniversalClient {
				return redistest.NewClient(t, addr, func(o *redis.Options) { o.TLSConfig = config })
			}
		},
		"RESP2, far away": func(t *testing.T) func() redis.UniversalClient {
			t.Helper()
			return func() redis.UniversalClient {
				way := faultproxy.Start(t, redistest.Shared(t).Addr())
				way.Delay(faultproxy.ToClient, 5*time.Millisecond)
				return redistest.NewClient(t, way.Addr(), func(o *redis.Options) { o.Protocol = 2 })
			}
		},
	} {
		for _, observers := range []string{"no observer", "a slow observer"} {
			t.Run(name+", "+observers, func(t *testing.T) {
				client, key := connect(t), redistest.Prefix(t)
				locker := func() *lockmw.Locker {
					if observers == "no observer" {
						return testenv.Open(t, client())
					}
					return testenv.Open(t, client(), lockmw.WithObserver(func(context.Context, lockmw.Event) { time.Sleep(2 * time.Millisecond) }))
				}
				in := new(inside)
				c := gather(t, locker(), key, 8, time.Millisecond, in)
				defer c.disperse()
				other, turns, next := locker(), c.turns.Load(), in.next.Load()
				for range 5 {
					lease := mustAcquire(t, other, key, patient)
					in.enter(t, lease)
					in.leave()
					mustRelease(t, lease)
					before := in.next.Load()
					await.Within(t, 20*time.Second, "the lock passes on within the process again", func() bool { return in.next.Load() > before+8 })
				}
				t.Logf("%d of %d turns passed on within the process", in.next.Load()-next, c.turns.Load()-turns)
			})
		}
	}
}

// Without a subscription a process would not be told who else waits. So each of its turns
// goes through Redis.
func TestNothingPassesLocallyWithoutASubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		listens := lockmw.Listens(l)
		c := gather(t, l, "k", 4, 10*time.Millisecond, new(inside))
		defer c.disperse()
		time.Sleep(3 * time.Second)
		before := c.turns.Load()
		proxy.ResetCommands()
		time.Sleep(3 * time.Second)
		if turns, n := int(c.turns.Load()-before), commands(proxy); turns < 200 || n > turns/20 {
			t.Errorf("%d commands for %d turns, while it listens", n, turns)
		}

		listens.Store(false)
		proxy.Cut()
		time.Sleep(3 * time.Second)
		before = c.turns.Load()
		proxy.ResetCommands()
		time.Sleep(3 * time.Second)
		if turns, n := int(c.turns.Load()-before), commands(proxy); turns < 100 || n < turns-4 {
			t.Errorf("%d commands for %d turns, while it does not listen", n, turns)
		}

		listens.Store(true)
		time.Sleep(3 * time.Second)
		before = c.turns.Load()
		proxy.ResetCommands()
		time.Sleep(3 * time.Second)
		if turns, n := int(c.turns.Load()-before), commands(proxy); turns < 200 || n > turns/20 {
			t.Errorf("%d commands for %d turns, when it listens again", n, turns)
		}
	})
}

// Another TTL, or a MinHold, is not what Redis keeps the lock for.
func TestOnlyEqualsFollowOneAnotherLocally(t *testing.T) {
	for name, next := range map[string]lockmw.Policy{
		"the same TTL": patient,
		"another TTL":  {Wait: 30 * time.Second, TTL: 20 * time.Second},
		"a MinHold":    {Wait: 30 * time.Second, MinHold: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				client, proxy := proxied(t, s)
				l := testenv.Open(t, client)
				mustRelease(t, mustAcquire(t, l, "k", patient))
				time.Sleep(time.Second) // it listens
				holder := mustAcquire(t, l, "k", patient)
				waiting := lineUp(t, l, "k", next, 1)
				time.Sleep(time.Millisecond) // the next fence must be lower than the server's clock, which stands still in a bubble until then
				proxy.ResetCommands()
				mustRelease(t, holder)
				lease := <-waiting
				want := 1
				if name == "the same TTL" {
					want = 0
				}
				if got := proxy.Commands()["EVALSHA"]; got != want {
					t.Errorf("%d commands, want %d", got, want)
				}
				if left, ttl := time.Until(lease.ValidUntil()), max(next.TTL, 20*time.Second); left < ttl*9/10 {
					t.Errorf("the next lease is valid for %v, of a TTL of %v at least", left, ttl)
				}
				mustRelease(t, lease)
			})
		})
	}
}

// A lease that follows another one is lost with the lock, at once where it was taken by
// force; and those who wait behind it go to Redis.
func TestALockTakenByForceInTheMiddleOfATenure(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		mustRelease(t, mustAcquire(t, l, "k", patient))
		time.Sleep(time.Second) // it listens
		first := mustAcquire(t, l, "k", patient)
		waiting := lineUp(t, l, "k", patient, 3)
		mustRelease(t, first)
		second := <-waiting
		began := time.Now()
		if err := other.ForceRelease(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		<-second.Context().Done()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("told after %v", took)
		}
		if cause := context.Cause(second.Context()); !errors.Is(cause, lockmw.ErrLost) {
			t.Errorf("cause = %v, want ErrLost", cause)
		}
		third := <-waiting
		if third.Fence() <= second.Fence() {
			t.Errorf("fence %d after %d", third.Fence(), second.Fence())
		}
		if err := second.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release = %v, want ErrLost", err)
		}
		if !third.Valid() {
			t.Error("the release of a lost lease has ended the next one")
		}
		mustRelease(t, third)
		mustRelease(t, <-waiting)
		last := mustAcquire(t, other, "k", patient)
		if last.Fence() <= third.Fence() {
			t.Errorf("fence %d after %d", last.Fence(), third.Fence())
		}
		mustRelease(t, last)
	})
}

// After a release by force the next fence is ahead of Redis's clock for a moment. Until that
// has passed no local fence follows it: if its process ended then, the next holder's would
// be lower.
func TestNoLocalFenceIsAheadOfTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		short := patient
		short.TTL = 300 * time.Millisecond
		mustRelease(t, mustAcquire(t, l, "k", short))
		time.Sleep(time.Second) // it listens
		forced := mustAcquire(t, l, "k", short)
		if err := other.ForceRelease(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := forced.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Fatalf("release = %v, want ErrLost", err)
		}
		first := mustAcquire(t, l, "k", short)
		waiting := lineUp(t, l, "k", short, 1)
		mustRelease(t, first)
		second := <-waiting
		value, err := s.Client(t).Get(context.Background(), "lock:{k}").Result()
		if err != nil {
			t.Fatal(err)
		}
		if fence := strconv.FormatInt(second.Fence(), 10); !strings.HasSuffix(value, ":"+fence) {
			t.Errorf("the fence is %s, and Redis has %q", fence, value)
		}
		mustRelease(t, second)
	})
}

// A renewal that finds the lock gone ends the lease that has it then.
func TestALockThatRedisForgetsInTheMiddleOfATenure(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l := testenv.Open(t, s.Client(t))
		mustRelease(t, mustAcquire(t, l, "k", patient))
		time.Sleep(time.Second) // it listens
		first := mustAcquire(t, l, "k", patient)
		waiting := lineUp(t, l, "k", patient, 2)
		mustRelease(t, first)
		second := <-waiting
		s.Client(t).Set(context.Background(), "lock:{k}", "a stranger", time.Second)
		lockmw.RenewAll(l)
		if second.Valid() {
			t.Error("the renewal has found the lock gone, and the lease is valid")
		}
		third := <-waiting // when the stranger's time is over
		if third.Fence() <= second.Fence() || !third.Valid() {
			t.Errorf("fence %d after %d, valid %t", third.Fence(), second.Fence(), third.Valid())
		}
		mustRelease(t, third)
	})
}

// A process that is cut off in the middle of a tenure stops in time: no later than a lease
// of its own grant would.
func TestATenureEndsBeforeItsTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		short := patient
		short.TTL = 3 * time.Second
		in := new(inside)
		var all sync.WaitGroup
		var cut atomic.Bool
		for range 4 {
			all.Go(func() {
				for !cut.Load() {
					ctx, lease, err := l.Acquire(context.Background(), "k", short)
					if err != nil {
						return // Redis is away
					}
					in.enter(t, lease)
					time.Sleep(20 * time.Millisecond)
					if cut.Load() { // this one goes on for as long as it may
						<-ctx.Done()
					}
					in.leave()
					_ = lease.Release(ctx)
				}
			})
		}
		time.Sleep(2 * time.Second)
		cut.Store(true)
		proxy.BlackHole(faultproxy.Both)
		began := time.Now()
		lease := mustAcquire(t, other, "k", patient)
		in.enter(t, lease)
		if took := time.Since(began); took > short.TTL+time.Second {
			t.Errorf("the lock came free after %v", took)
		}
		all.Wait()
		in.leave()
		mustRelease(t, lease)
		proxy.Heal()
	})
}

// A lock that another process has handed over is kept for a short time until the first
// renewal. Nobody else of the process gets that short time.
func TestALockThatWasHandedOverIsConfirmedBeforeItPassesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		mustRelease(t, mustAcquire(t, l, "k", patient))
		time.Sleep(time.Second) // it listens
		holder := mustAcquire(t, other, "k", patient)
		waiting := lineUp(t, l, "k", patient, 3)
		mustRelease(t, holder)
		first := <-waiting
		proxy.ResetCommands()
		mustRelease(t, first)
		second := <-waiting
		if left := time.Until(second.ValidUntil()); left < 20*time.Second || commands(proxy) == 0 {
			t.Errorf("the next lease is valid for %v, after %d commands", left, commands(proxy))
		}
		time.Sleep(200 * time.Millisecond)
		proxy.ResetCommands()
		mustRelease(t, second)
		third := <-waiting
		if n := commands(proxy); n > 0 {
			t.Errorf("%d commands, want none: the lock is this process's", n)
		}
		mustRelease(t, third)
	})
}

func TestCloseInTheMiddleOfATenure(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s, key := redistest.Shared(t), redistest.Prefix(t)
	other := testenv.Open(t, s.Client(t))
	for range 5 {
		l := testenv.Open(t, s.Client(t))
		in := new(inside)
		var all sync.WaitGroup
		var turns atomic.Int64
		for range 8 {
			all.Go(func() {
				for {
					lease, err := askedAgain(l, key, patient)
					if err != nil {
						if !errors.Is(err, lockmw.ErrClosed) {
							t.Error(err)
						}
						return
					}
					in.enter(t, lease)
					turns.Add(1)
					in.leave()
					asked := time.Now()
					if err := lease.Release(context.Background()); err != nil && !unanswered(err, asked) {
						t.Error(err)
					}
				}
			})
		}
		await.Within(t, 20*time.Second, "there were some turns", func() bool { return turns.Load() > 100 })
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		all.Wait()
		began := time.Now()
		mustRelease(t, mustAcquire(t, other, key, patient))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the lock was not free for %v", took)
		}
	}
	noKeys(t, s.Client(t), key, 3*time.Second)
}

// Callers of two processes that give up at any moment leave the lock to others.
func TestGivingUpAtAnyMomentOfATenure(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s, key := redistest.Shared(t), redistest.Prefix(t)
	in := new(inside)
	var all sync.WaitGroup
	var got, gone atomic.Int64
	stop := time.Now().Add(3 * time.Second)
	for range 2 {
		l := testenv.Open(t, s.Client(t))
		for range 8 {
			all.Go(func() {
				for time.Now().Before(stop) {
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(2*time.Millisecond))
					_, lease, err := l.Acquire(ctx, key, patient)
					switch {
					case err == nil:
						in.enter(t, lease)
						got.Add(1)
						in.leave()
						mustRelease(t, lease)
					case errors.Is(err, context.DeadlineExceeded): // also where Redis was slow to answer
						gone.Add(1)
					default:
						t.Error(err)
					}
					cancel()
				}
			})
		}
	}
	all.Wait()
	t.Logf("%d had the lock, %d had given up", got.Load(), gone.Load())
	began := time.Now()
	mustRelease(t, mustAcquire(t, testenv.Open(t, s.Client(t)), key, patient))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the lock was not free for %v", took)
	}
	noKeys(t, s.Client(t), key, 5*time.Second)
}

// MaxHold, and what observers are told, is each lease's own.
func TestEachLeaseOfATenureIsALease(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		seen := new(events)
		l := testenv.Open(t, s.Client(t), seen.option())
		p := patient
		p.MaxHold = 5 * time.Second
		mustRelease(t, mustAcquire(t, l, "k", p))
		time.Sleep(time.Second) // it listens
		first := mustAcquire(t, l, "k", p)
		waiting := lineUp(t, l, "k", p, 2)
		time.Sleep(time.Second / 2)
		mustRelease(t, first)
		second := <-waiting
		began := time.Now()
		<-second.Context().Done()
		if took := time.Since(began); took != p.MaxHold || !errors.Is(context.Cause(second.Context()), lockmw.ErrMaxHold) {
			t.Errorf("ended after %v: %v", took, context.Cause(second.Context()))
		}
		mustRelease(t, second)
		mustRelease(t, <-waiting)
		time.Sleep(time.Second)
		for kind, want := range map[lockmw.EventKind]int{
			lockmw.EventAcquired: 4, lockmw.EventHandedOver: 2, lockmw.EventReleased: 4, lockmw.EventContended: 2, lockmw.EventStuck: 1,
		} {
			if got := seen.of(kind); len(got) != want {
				t.Errorf("%d events %v, want %d", len(got), kind, want)
			}
		}
	})
}
