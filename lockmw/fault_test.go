package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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

// proxied returns a client that reaches a Redis through a fault proxy.
func proxied(tb testing.TB, s redistest.Backend) (*redis.Client, *faultproxy.Proxy) {
	tb.Helper()
	if m, ok := s.(*redistest.Mini); ok && m.InMemory() {
		p := faultproxy.InMemory(m.DialInMemory)
		tb.Cleanup(func() { _ = p.Close() })
		return redistest.NewClient(tb, p.Addr(), func(o *redis.Options) { o.Dialer, o.PoolSize = p.Dial, 1000 }), p
	}
	p, err := faultproxy.New(s.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Close() })
	return redistest.NewClient(tb, p.Addr()), p
}

// A holder that is cut off is told before anybody else can have
// the lock.
func TestPartitionedHolderIsToldBeforeItsSuccessorRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		prefix := redistest.Prefix(t)
		const rounds, holders = 5, 10
		p := lockmw.Policy{TTL: 1500 * time.Millisecond}
		var mu sync.Mutex
		var margins []time.Duration
		for round := range rounds {
			client, proxy := proxied(t, s)
			cut, whole := testenv.Open(t, client), testenv.Open(t, s.Client(t))
			var wg sync.WaitGroup
			for i := range holders {
				key := fmt.Sprint(prefix, round, "-", i)
				lease := mustAcquire(t, cut, key, p)
				told := make(chan time.Time, 1)
				context.AfterFunc(lease.Context(), func() { told <- time.Now() })
				wg.Go(func() {
					_, next, err := whole.Acquire(context.Background(), key, lockmw.Policy{TTL: p.TTL, Wait: 30 * time.Second})
					at := time.Now()
					if err != nil {
						t.Error(err)
						return
					}
					if lease.Context().Err() == nil || lease.Valid() {
						t.Errorf("%s: two holders", key)
					}
					mustRelease(t, next)
					if t.Failed() {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					margins = append(margins, at.Sub(<-told))
				})
			}
			// The cut comes at any point between two renewals.
			time.Sleep(rand.N(p.TTL / 3))
			proxy.BlackHole(faultproxy.Both)
			wg.Wait()
			proxy.Heal()
		}
		if len(margins) != rounds*holders {
			t.Fatalf("%d margins, want %d", len(margins), rounds*holders)
		}
		smallest := margins[0]
		for _, m := range margins {
			smallest = min(smallest, m)
		}
		t.Logf("%d partitions; from the end of the context to the successor: at least %v", len(margins), smallest)
		if smallest <= 0 {
			t.Error("a successor ran before its predecessor was told")
		}
	})
}

func TestLostRepliesOfAcquireNeitherBlockNorLeak(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := redistest.Shared(t)
	c, key := s.Client(t), redistest.Prefix(t)
	client, proxy := proxied(t, s)
	l := testenv.Open(t, client)
	mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{})) // the scripts are loaded
	const lost = 200
	for i := range lost {
		proxy.DropReplies(1, faultproxy.Match("evalsha", "set"))
		began := time.Now()
		lease, err := askedAgain(l, fmt.Sprint(key, i%7), lockmw.Policy{Wait: 20 * time.Second})
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		if took := time.Since(began); took > 4*time.Second+machine.Between(began, time.Now()) { // its Wait and its TTL are far longer
			t.Errorf("reply %d: blocked by itself for %v", i, took)
		}
		mustRelease(t, lease)
	}
	if got := proxy.Dropped(); got != lost {
		t.Errorf("%d replies were dropped, want %d", got, lost)
	}
	noKeys(t, c, key, 10*time.Second) // the TTL is longer
}

func TestLostRepliesOfReleaseAreNoLoss(t *testing.T) {
	s := redistest.Shared(t)
	c, key := s.Client(t), redistest.Prefix(t)
	client, proxy := proxied(t, s)
	l := testenv.Open(t, client)
	mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{}))
	const lost = 200
	for i := range lost {
		lease := mustAcquire(t, l, fmt.Sprint(key, i%7), lockmw.Policy{Wait: 20 * time.Second})
		proxy.DropReplies(1, faultproxy.Match("evalsha"))
		asked := time.Now()
		if err := lease.Release(context.Background()); err != nil && !unanswered(err, asked) {
			t.Fatalf("reply %d: %v", i, err)
		}
	}
	if got := proxy.Dropped(); got != lost {
		t.Errorf("%d replies were dropped, want %d", got, lost)
	}
	noKeys(t, c, key, 10*time.Second) // the TTL is longer
}

func TestCancelledAcquiresLeaveNothing(t *testing.T) {
	s := redistest.Shared(t)
	c, key := s.Client(t), redistest.Prefix(t)
	client, proxy := proxied(t, s)
	proxy.Delay(faultproxy.Both, 2*time.Millisecond) // so that cancels hit every moment
	l := testenv.Open(t, client)
	const cancels = 300
	var late time.Duration
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range cancels {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithCancel(context.Background())
			var at time.Time
			timer := time.AfterFunc(rand.N(50*time.Millisecond), func() { at = time.Now(); cancel() })
			defer timer.Stop()
			asked := time.Now()
			_, lease, err := l.Acquire(ctx, fmt.Sprint(key, i%3), lockmw.Policy{Wait: 5 * time.Second})
			if err == nil {
				<-ctx.Done()
				if err := lease.Release(ctx); err != nil && !unanswered(err, asked) {
					t.Error(err)
				}
				return
			}
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			late = max(late, time.Since(at))
			if (!errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, context.Canceled)) && !unanswered(err, asked) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d acquires; the latest return came %v after its cancel", cancels, late)
	noKeys(t, c, key, 10*time.Second) // the TTL is longer
}

func TestUnreachableRedisIsReportedWithinTheBudget(t *testing.T) {
	t.Parallel()
	for _, p := range []lockmw.Policy{{}, {Wait: 700 * time.Millisecond}, {Retries: 2}} {
		try := func(t *testing.T, s redistest.Backend, least, most time.Duration, fault func(*faultproxy.Proxy)) {
			t.Helper()
			client, proxy := proxied(t, s)
			l := testenv.Open(t, client)
			if least > 0 { // there is a connection, which is silent then
				mustRelease(t, mustAcquire(t, l, redistest.Prefix(t), lockmw.Policy{}))
			}
			fault(proxy)
			began := time.Now()
			err := l.WithLock(context.Background(), redistest.Prefix(t), p, func(context.Context) error {
				t.Error("it ran")
				return nil
			})
			took := time.Since(began)
			var refusal *lockmw.AcquireError
			if !errors.Is(err, lockmw.ErrUnavailable) || !errors.As(err, &refusal) || refusal.RetryAfter != time.Second {
				t.Errorf("err = %v", err)
			}
			if took < least || took > most {
				t.Errorf("refused after %v, want %v to %v", took, least, most)
			}
			t.Logf("%v after %v", err, took)
		}
		t.Run(fmt.Sprint("refused", p.Wait, p.Retries), func(t *testing.T) {
			t.Parallel()
			try(t, redistest.Shared(t), 0, 5*time.Second, func(p *faultproxy.Proxy) { p.Refuse(true) }) // of a busy machine
		})
		t.Run(fmt.Sprint("black hole", p.Wait, p.Retries), func(t *testing.T) {
			// A silence counts only while this process runs: what stands still may use up the Wait before Redis is known to be silent.
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				try(t, s, 300*time.Millisecond, 1250*time.Millisecond, func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) })
			})
		})
	}
}

func TestFailOpenRunsWithoutTheLockWhenRedisIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var seen events
		l := testenv.Open(t, s.Client(t), seen.option())
		s.SetError(loading)
		ran := false
		err := l.WithLock(context.Background(), "k", lockmw.Policy{FailOpen: true}, func(ctx context.Context) error {
			lease, _ := lockmw.FromContext(ctx)
			if !lease.Valid() || lease.Fence() != 0 || !lease.ValidUntil().IsZero() {
				t.Errorf("valid %v, fence %d, until %v", lease.Valid(), lease.Fence(), lease.ValidUntil())
			}
			ran = true
			return nil
		})
		if err != nil || !ran {
			t.Errorf("ran %v, err %v", ran, err)
		}
		if n := len(seen.of(lockmw.EventFailedOpen)); n != 1 {
			t.Errorf("%d failed-open events", n)
		}
	})
}

func TestReleaseThatRedisDoesNotAnswerIsUnavailable(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := redistest.Shared(t)
	key := redistest.Prefix(t)
	client, proxy := proxied(t, s)
	l := testenv.Open(t, client)
	lease := mustAcquire(t, l, key, lockmw.Policy{})
	proxy.BlackHole(faultproxy.Both)
	began := time.Now()
	err := lease.Release(context.Background())
	if !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
	if took := time.Since(began); took > 5*time.Second { // a second, on a quiet machine
		t.Errorf("Release took %v", took)
	}
	proxy.Heal()
	noKeys(t, s.Client(t), key, 10*time.Second) // tried further in the background
}

func TestLostSubscriptionCostsMoments(t *testing.T) {
	s := redistest.Real(t)
	c := s.Client(t)
	l := testenv.Open(t, s.Client(t))
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.ClientKillByFilter(context.Background(), "TYPE", "pubsub")
			case <-stop:
				return
			}
		}
	})
	const workers, turns = 8, 250
	var mu sync.Mutex
	var longest time.Duration
	last := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range turns {
				lease, err := askedAgain(l, "k", lockmw.Policy{Wait: 30 * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				longest, last = max(longest, time.Since(last)), time.Now()
				mu.Unlock()
				mustRelease(t, lease)
			}
		})
	}
	wg.Wait()
	close(stop)
	killer.Wait()
	t.Logf("%d hand-overs, the longest gap %v", workers*turns, longest)
	if longest > 4*time.Second { // a waiter that is stuck stays so for tens of seconds
		t.Errorf("a lost wake-up cost %v", longest)
	}
}

func TestExhaustedPoolDoesNotEndLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		c := s.Client(t, func(o *redis.Options) { o.PoolSize = 2; o.PoolTimeout = time.Minute; o.ReadTimeout = time.Minute })
		l := testenv.Open(t, c)
		var leases []*lockmw.Lease
		for i := range 100 {
			leases = append(leases, mustAcquire(t, l, fmt.Sprint(key, i), lockmw.Policy{TTL: time.Second}))
		}
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() { c.BLPop(context.Background(), 3*time.Second, fmt.Sprint(key, "list", i)) })
		}
		wg.Wait() // 3 TTLs and more
		for _, lease := range leases {
			if !lease.Valid() {
				t.Fatal("lost")
			}
			mustRelease(t, lease)
		}
	})
}

// Validity counts from before the command, so a slow answer shortens it.
func TestValidityNeverOutlastsTheKey(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{}))
		proxy.Delay(faultproxy.ToClient, 200*time.Millisecond)
		lease := mustAcquire(t, l, key, lockmw.Policy{TTL: 3 * time.Second})
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			until := lease.ValidUntil()
			left := c.PTTL(context.Background(), "lock:{"+key+"}").Val()
			if expires := time.Now().Add(left); until.After(expires) {
				t.Fatalf("valid for %v longer than the key lives", until.Sub(expires))
			}
		}
		if !lease.Valid() {
			t.Error("lost")
		}
		proxy.Delay(faultproxy.ToClient, 0)
		mustRelease(t, lease)
	})
}

// Who runs without the lock has none: others are not told that this process holds it.
func TestWhoRunsWithoutTheLockIsNotNamedAsItsHolder(t *testing.T) {
	for _, mode := range []lockmw.Mode{lockmw.Exclusive, lockmw.Shared} {
		inBubble(t, func(t *testing.T, s *redistest.Mini) {
			l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
			s.SetError(loading)
			open := mustAcquire(t, l, "k", lockmw.Policy{FailOpen: true, Mode: mode})
			s.SetError("")
			time.Sleep(2 * time.Second) // it is known to be back
			held := mustAcquire(t, other, "k", lockmw.Policy{})
			_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{})
			var refusal *lockmw.AcquireError
			if !errors.As(err, &refusal) || refusal.Holder == nil || refusal.Holder.Instance != other.Instance() {
				t.Errorf("%v: Acquire = %v, want a refusal that names the other process", mode, err)
			}
			mustRelease(t, held)
			mustRelease(t, open)
		})
	}
}

// A server that takes the place of another one may not know of those who came last to wait. The subscription is new there, so
// all who wait ask again: not the first alone, behind whom the others would be served one after the other.
func TestPlacesThatAnotherServerDoesNotKnowAreTakenAgain(t *testing.T) {
	s := redistest.Real(t)
	c, ctx := s.Client(t), context.Background()
	l := testenv.Open(t, s.Client(t))
	mustRelease(t, mustAcquire(t, l, "another", lockmw.Policy{Wait: time.Minute})) // so that it is subscribed before anybody waits
	await.Until(t, "the Locker is subscribed", func() bool { return l.Stats().Subscribed })
	held := mustAcquire(t, testenv.Open(t, s.Client(t)), "k", lockmw.Policy{TTL: time.Minute})
	const readers = 8
	served := make(chan error, readers)
	for range readers {
		go func() {
			_, lease, err := l.Acquire(ctx, "k", lockmw.Policy{TTL: time.Minute, Mode: lockmw.Shared, Wait: time.Minute, RetryInterval: time.Minute})
			if err == nil {
				err = lease.Release(ctx)
			}
			served <- err
		}()
	}
	whole := func() bool { return queued(t, c, "k") == readers }
	await.Until(t, "all stand in the queue", whole)
	if err := c.ZRemRangeByRank(ctx, "lock:{k}:queue", 1, -1).Err(); err != nil {
		t.Fatal(err)
	}
	c.ClientKillByFilter(ctx, "TYPE", "pubsub")
	await.Until(t, "all stand in the queue again", whole)
	mustRelease(t, held)
	for range readers {
		if err := await.Receive(t, "a reader", served); err != nil {
			t.Error(err)
		}
	}
}
