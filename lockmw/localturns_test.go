package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// patient waits, and polls seldom: what a test sees is not what polling found.
var patient = lockmw.Policy{Wait: 30 * time.Second, RetryInterval: 10 * time.Second}

// otherTTL is patient with another TTL, so that the lock passes between the two through
// Redis.
var otherTTL = lockmw.Policy{Wait: 30 * time.Second, RetryInterval: 10 * time.Second, TTL: 20 * time.Second}

// lineUp has n calls of Acquire wait, one after the other, and returns their
// leases as they come.
func lineUp(tb testing.TB, l *lockmw.Locker, key string, p lockmw.Policy, n int) <-chan *lockmw.Lease {
	tb.Helper()
	leases := make(chan *lockmw.Lease, n)
	waiting := lockmw.Waiting(l, key)
	for i := range n {
		go func() {
			_, lease, err := l.Acquire(context.Background(), key, p)
			if err != nil {
				tb.Error(err)
			}
			leases <- lease
		}()
		await.Within(tb, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(l, key) == waiting+i+1 })
	}
	return leases
}

// commands returns how many commands of locks have passed the proxy.
func commands(p *faultproxy.Proxy) int { return p.Commands()["EVALSHA"] + p.Commands()["EVAL"] }

func TestATurnWithinAProcessIsOneCommand(t *testing.T) {
	t.Parallel()
	client, proxy := proxied(t, redistest.Shared(t))
	l, key := testenv.Open(t, client), redistest.Prefix(t)
	const waiters, turns = 8, 50
	holder := mustAcquire(t, l, key, patient)
	var all sync.WaitGroup
	inside := 0
	for range waiters {
		all.Go(func() {
			for range turns {
				lease := mustAcquire(t, l, key, patient)
				inside++ // the lock guards it
				mustRelease(t, lease)
			}
		})
	}
	proxy.ResetCommands()
	mustRelease(t, holder)
	all.Wait()
	if got := commands(proxy); got > waiters*turns*5/4 {
		t.Errorf("%d commands for %d turns", got, waiters*turns)
	}
	if inside != waiters*turns {
		t.Errorf("%d turns, want %d", inside, waiters*turns)
	}
}

// Those who give up while another of their process has the lock have left
// nothing in Redis to be removed.
func TestALocalWaiterThatGivesUpCostsNothing(t *testing.T) {
	t.Parallel()
	client, proxy := proxied(t, redistest.Shared(t))
	l, key := testenv.Open(t, client), redistest.Prefix(t)
	holder := mustAcquire(t, l, key, lockmw.Policy{TTL: time.Minute, Wait: time.Second})
	proxy.ResetCommands()
	began := time.Now()
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		_, _, err := l.Acquire(ctx, key, patient)
		cancel()
		if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	}
	polls := int(time.Since(began) / (700 * time.Millisecond)) // on a slow machine
	if got := commands(proxy); got > polls {
		t.Errorf("%d commands", got)
	}
	mustRelease(t, holder)
}

// Waiters are served in order where some of a queue need Redis to know of them and others do
// not.
func TestKindsKeepTheirOrderOverProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
	wantInOrder(t, 32, func(apart time.Duration) []int { return kindsInOrder(t, s, lockers, apart) })
}

// wantInOrder fails the test unless serve, which has n waiters of two processes come so long apart, returns that they were served
// in that order.
func wantInOrder(t *testing.T, n int, serve func(apart time.Duration) (order []int)) {
	t.Helper()
	// A process tells Redis for how long a waiter has waited. What stands still between the two for longer than lies
	// between two who come changes their order.
	const apart, tries = 50 * time.Millisecond, 5
	for try := 1; ; try++ {
		began := time.Now()
		order := serve(apart)
		if slices.IsSorted(order) && len(order) == n {
			return
		}
		if try == tries || machine.Longest(began, time.Now()) < apart/2 {
			t.Fatalf("served in the order %v", order)
		}
	}
}

// kindsInOrder has 32 waiters of two processes come, so long apart, and returns the order in which they are served.
func kindsInOrder(t *testing.T, s redistest.Backend, lockers []*lockmw.Locker, apart time.Duration) (order []int) {
	t.Helper()
	c, key := s.Client(t), redistest.Prefix(t)
	holder := mustAcquire(t, lockers[0], key, patient)
	kinds := []lockmw.Mode{lockmw.Exclusive, lockmw.Exclusive, lockmw.Shared, lockmw.Exclusive}
	var mu sync.Mutex
	var all sync.WaitGroup
	places := 0 // in Redis: each reader, and the first writer of the other process
	for i := range 32 {
		l, kind := lockers[i/3%2], kinds[i%len(kinds)]
		before := lockmw.Waiting(l, key)
		all.Go(func() {
			p := patient
			p.Mode = kind
			lease := mustAcquire(t, l, key, p)
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			mustRelease(t, lease)
		})
		if kind == lockmw.Shared || i == 3 {
			places++
		}
		await.Within(t, 5*time.Second, "it waits", func() bool {
			return lockmw.Waiting(l, key) == before+1 && queued(t, c, key) >= places
		})
		time.Sleep(apart)
	}
	mustRelease(t, holder)
	all.Wait()
	return order
}

// The reply to a release that passed the lock on is lost: neither the release
// nor the next holder is held up, and it is not the next one's lock twice.
func TestLostReplyOfAReleaseThatPassesTheLockOn(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s, prefix := redistest.Shared(t), redistest.Prefix(t)
	match := faultproxy.MatchScript(redisstore.Scripts()["releaseto"])
	for i, opts := range [][]faultproxy.DropOption{nil, {faultproxy.KeepOpen()}} {
		most := []time.Duration{700 * time.Millisecond, 2 * time.Second}[i] // before polling finds it; a release's timeout and some
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		const rounds = 5
		least := rounds
		for round := range rounds {
			key := fmt.Sprint(prefix, i, "-", round)
			lease := mustAcquire(t, l, key, otherTTL)
			came := time.Now()
			waiting := lineUp(t, l, key, patient, 3)
			proxy.DropReplies(1, match, opts...)
			meter, began := stalls.Start(), time.Now()
			err := lease.Release(context.Background())
			for range 3 {
				mustRelease(t, <-waiting)
			}
			meter.Stop()
			stood := meter.Between(began, time.Now())
			if began.Sub(came)+stood >= 300*time.Millisecond { // who waits for longer asks Redis, and the release need not pass the lock on
				least--
			}
			if err != nil && (stood < 100*time.Millisecond || !errors.Is(err, lockmw.ErrUnavailable)) { // its second try may be late where the machine stands
				t.Error(err)
			}
			if took := time.Since(began); took > most+stood {
				t.Errorf("held up for %v, of which the machine stood for %v", took, stood)
			}
		}
		if n := proxy.Dropped(); n < least || n > rounds {
			t.Errorf("%d replies were lost, want %d to %d", n, least, rounds)
		}
	}
	noKeys(t, s.Client(t), prefix, 3*time.Second)
}

// A waiter gives up at any moment of the release that passes the lock on to it,
// whose reply may be lost.
func TestGivingUpWhileTheLockIsPassedOn(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s, prefix := redistest.Shared(t), redistest.Prefix(t)
	client, proxy := proxied(t, s)
	l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
	const way = 3 * time.Millisecond
	proxy.Delay(faultproxy.Both, way)
	match := faultproxy.MatchScript(redisstore.Scripts()["releaseto"])
	got, gone := 0, 0
	for i := range 60 {
		key := fmt.Sprint(prefix, i)
		holder := mustAcquire(t, l, key, otherTTL)
		ctx, cancel := context.WithCancel(context.Background())
		outcome := make(chan error, 1)
		go func() {
			_, lease, err := l.Acquire(ctx, key, patient)
			if err == nil {
				err = lease.Release(ctx)
			}
			outcome <- err
		}()
		await.Within(t, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(l, key) == 1 })
		if i%3 == 0 {
			proxy.DropReplies(1, match)
		}
		time.AfterFunc(rand.N(4*way), cancel)
		mustRelease(t, holder)
		switch err := <-outcome; {
		case err == nil:
			got++
		case errors.Is(err, lockmw.ErrNotAcquired):
			gone++
		default:
			t.Error(err)
		}
		began := time.Now()
		mustRelease(t, mustAcquire(t, other, key, patient))
		if took := time.Since(began); took > 3*time.Second+machine.Between(began, time.Now()) { // what nobody gives back is there until its TTL
			t.Errorf("the lock was not free for %v", took)
		}
	}
	t.Logf("%d had the lock, %d had given up", got, gone)
	noKeys(t, s.Client(t), prefix, 3*time.Second)
}

// A holder that lost the lock does not keep the others of its process from
// asking for themselves, though they are not the first of their queue.
func TestWaitersBehindALostHolderAskForThemselves(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		holder := mustAcquire(t, l, key, patient)
		readers := patient
		readers.Mode = lockmw.Shared
		reader := lineUp(t, l, key, readers, 1)
		await.Within(t, 5*time.Second, "the reader is in the queue", func() bool { return queued(t, c, key) == 1 })
		writer := lineUp(t, l, key, patient, 1)
		if n := queued(t, c, key); n != 1 {
			t.Errorf("%d in the queue: the writer need not be there", n)
		}
		c.Set(context.Background(), "lock:{"+key+"}", "a stranger", time.Minute)
		lockmw.RenewAll(l)
		<-holder.Context().Done()
		await.Within(t, 5*time.Second, "the writer is in the queue", func() bool { return queued(t, c, key) == 2 })
		c.Del(context.Background(), "lock:{"+key+"}")
		mustRelease(t, <-reader)
		mustRelease(t, <-writer)
		if err := holder.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release = %v", err)
		}
	})
}

func TestLocalWaitersOfAHolderWithMinHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		long := patient
		long.MinHold = 300 * time.Millisecond
		began := time.Now()
		holder := mustAcquire(t, l, key, long)
		next := lineUp(t, l, key, patient, 2)
		mustRelease(t, holder)
		mustRelease(t, <-next)
		if held := time.Since(began); held < long.MinHold || held > 3*time.Second {
			t.Errorf("the next one came after %v, want MinHold", held)
		}
		mustRelease(t, <-next)
	})
}

func TestInspectCountsThoseOfWhomRedisNeedNotKnow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		holder := mustAcquire(t, l, key, patient)
		waiting := lineUp(t, l, key, lockmw.Policy{Wait: 30 * time.Second}, 5)
		see := func(l *lockmw.Locker) int {
			info, err := l.Inspect(context.Background(), key)
			if err != nil {
				t.Error(err)
			}
			return info.Waiting
		}
		if n := see(l); n != 5 {
			t.Errorf("its own Locker sees %d", n)
		}
		await.Within(t, 5*time.Second, "another Locker sees all", func() bool { return see(other) == 5 })
		mustRelease(t, holder)
		for range 5 {
			mustRelease(t, <-waiting)
		}
	})
}
