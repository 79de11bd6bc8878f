package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/record"
	"github.com/lockmw/kit/proof/skew"
)

// Whoever comes while the lock passes on within another process has it after those who
// came before, and that process's holder of then: also if the process is not told of it,
// in about a second.
func TestWhoJoinsWhileATenureLasts(t *testing.T) {
	const workers, hold = 8, 2 * time.Millisecond
	for _, tc := range []struct {
		name  string
		deaf  bool
		times int
	}{
		{"told", false, record.Pick(50, 1000)},
		{"not told", true, record.Pick(6, 100)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			besideOthers(t)
			random := seed(record.Seed(t))
			s := redistest.Shared(t)
			key := redistest.Prefix(t)
			proxies, lockers := behindProxies(t, s, 2)
			trip, err := roundTrip(lockers[1], key+"trip")
			if err != nil {
				t.Fatal(err)
			}
			limit := hold + 10*time.Millisecond + 2*trip
			if tc.deaf {
				limit = 1200 * time.Millisecond
				proxies[0].LoseMessages(faultproxy.MessageOf("contended"))
			}
			limit, stood := amongOthers(t, s, limit)
			in := new(atomic.Int64)
			policy := lockmw.Policy{TTL: 10 * time.Second, Wait: patience}
			c := gather(lockers[0], key, workers, policy, hold, in)
			defer func() {
				if err := c.disperse(); err != nil {
					t.Error(err)
				}
			}()
			var late samples
			policy.Wait = time.Duration(record.Pick(6, 3)) * time.Second // in the short slice a stall or two are in it
			forEach(t, 1, tc.times, func(i int) error {
				c.passes(t)
				time.Sleep(random.upTo(i, 30*time.Millisecond))
				c.forget()
				asked := time.Now()
				_, lease, err := lockers[1].Acquire(context.Background(), key, policy)
				for silent(err) {
					asked = time.Now()
					_, lease, err = lockers[1].Acquire(context.Background(), key, policy)
				}
				if err != nil {
					return fmt.Errorf("who joins has no turn: %w", err)
				}
				began := time.Now()
				if n := in.Add(1); n != 1 {
					err = fmt.Errorf("%d are inside", n)
				}
				left := c.leaves(asked, began)
				if began.Sub(left) > limit {
					time.Sleep(5 * pulse) // what Redis stood still is known when it has answered the ping, too
				}
				behind := max(0, began.Sub(left)-stood.Longest(left, began))
				late.add(behind)
				if behind > limit {
					err = errors.Join(err, fmt.Errorf("%v behind those who came before", behind))
				}
				in.Add(-1)
				return errors.Join(err, release(lease))
			})
			record.Add(t, record.Row{
				Check: 26, Name: "a process joins while the lock passes on within another: it is " + tc.name,
				Goal:   fmt.Sprintf("%d of %d have a turn within %s behind those who came before", tc.times, tc.times, short(limit)),
				Figure: fmt.Sprintf("%d of %d; behind them %s", late.within(limit), tc.times, late.spread()),
				Met:    !t.Failed() && late.within(limit) == tc.times,
				Note:   fmt.Sprintf("%d goroutines that hold it for %v each; a round trip takes %s", workers, hold, short(trip)),
			})
		})
	}
}

// roundTrip measures how long it takes to take and to give back a free lock, halved.
func roundTrip(l *lockmw.Locker, key string) (time.Duration, error) {
	const times = 20
	began := time.Now()
	for range times {
		if err := cycle(l, key); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / times / 2, nil
}

// Callers of two processes who come at random are served in about the order in which they
// came: a process learns of another's by a message.
func TestOrderOverTwoProcesses(t *testing.T) {
	besideOthers(t)
	random := seed(record.Seed(t))
	const workers, hold = 16, time.Millisecond // of each process: enough for a lock that never comes free
	times := record.Pick(1500, 20_000)
	s := redistest.Shared(t)
	key := redistest.Prefix(t)
	_, lockers := behindProxies(t, s, 2)
	trip, err := roundTrip(lockers[0], key+"trip")
	if err != nil {
		t.Fatal(err)
	}
	limit := 50*time.Millisecond + trip
	limit, stood := amongOthers(t, s, limit)
	var mu sync.Mutex
	var all []turn
	local := 0
	var last int64
	each := times / (2 * workers)
	times = 2 * workers * each
	forEach(t, 2*workers, 2*workers, func(w int) error {
		for i := range each {
			time.Sleep(random.upTo(w*each+i, 20*time.Millisecond))
			at := turn{asked: time.Now()}
			_, lease, err := lockers[w%2].Acquire(context.Background(), key, lockmw.Policy{TTL: 10 * time.Second, Wait: patience})
			if silent(err) { // it has lost its place, so this is no turn
				continue
			}
			if err != nil {
				return err
			}
			mu.Lock()
			at.began = time.Now()
			all = append(all, at)
			if lease.Fence() == last+1 {
				local++
			}
			last = lease.Fence()
			mu.Unlock()
			time.Sleep(hold)
			if err := release(lease); err != nil {
				return err
			}
		}
		return nil
	})
	var overtaken samples // by how much who overtook came later
	var latest time.Time
	for _, one := range all {
		if one.asked.After(latest) {
			latest = one.asked
		}
		overtaken.add(max(0, latest.Sub(one.asked)-stood.Longest(one.asked, latest)))
	}
	record.Add(t, record.Row{
		Check: 27, Name: "the order over two processes",
		Goal:   fmt.Sprintf("nobody of %d is overtaken by one who came more than %s later", times, short(limit)),
		Figure: fmt.Sprintf("%d of %d; by one who came later by %s", overtaken.within(limit), times, overtaken.spread()),
		Met:    !t.Failed() && overtaken.within(limit) == len(all) && len(all) >= times*9/10 && local > 0,
		Note:   fmt.Sprintf("%d turns were passed on without Redis", local),
	})
}

// Without a subscription nothing passes on without Redis: the process would not be told of
// others.
func TestNothingPassesOnUnheard(t *testing.T) {
	besideOthers(t)
	times := record.Pick(200, 2000)
	s := redistest.Real(t)
	raw := s.Client(t)
	l := testenv.Open(t, s.Client(t))
	c := gather(l, "k", 4, lockmw.Policy{TTL: time.Duration(record.Pick(5, 1)) * ttl, Wait: patience}, time.Millisecond, new(atomic.Int64))
	c.passes(t)
	ctx := context.Background()
	err := errors.Join(
		raw.Do(ctx, "ACL", "SETUSER", "default", "-subscribe").Err(),
		raw.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err())
	if err != nil {
		t.Fatal(err)
	}
	asked := func(turns int) (local int64) {
		from, before := c.number.Load(), c.local.Load()
		await.Within(t, patience, "there are turns", func() bool { return c.number.Load() >= from+int64(turns) })
		return c.local.Load() - before
	}
	comes(5*time.Second, func() bool { return asked(10) == 0 }) // it has noticed
	local := asked(times)
	if err := c.disperse(); err != nil {
		t.Error(err)
	}
	record.Add(t, record.Row{
		Check: 29, Name: "a process that cannot subscribe",
		Goal:   fmt.Sprintf("0 of %d turns passed on without Redis", times),
		Figure: fmt.Sprintf("%d passed on without Redis", local),
		Met:    !t.Failed() && local == 0,
	})
}

// A process that is cut off while the lock passes on within it ends its last lease before
// another has the lock, also one that began when a good part of the TTL was over.
func TestATenureThatIsCutOffEndsInTime(t *testing.T) {
	besideOthers(t)
	times := record.Pick(4, 40)
	policy := lockmw.Policy{TTL: 1500 * time.Millisecond, Wait: patience}
	if testing.Short() {
		policy.TTL *= 2
	}
	margin := policy.TTL / 10 // a lease ends so long before its key
	stood := stalls.During(t)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	var gaps samples
	forEach(t, 4, times, func(i int) error {
		proxies, lockers := behindProxies(t, s, 2)
		key := fmt.Sprint(prefix, i)
		var ended atomic.Int64
		c := gather(lockers[0], key, 4, policy, time.Millisecond, new(atomic.Int64))
		defer func() {
			proxies[0].Heal()
			proxies[0].Cut()
			_ = c.disperse() // it was cut off
		}()
		old := func() bool { // as old as it gets before it is renewed
			age := c.age()
			return age > policy.TTL/3-180*time.Millisecond && age < policy.TTL/3-70*time.Millisecond
		}
		if !comes(patience, old) {
			return errors.New("the lock does not pass on within the process")
		}
		c.keeps.Store(&ended)
		cut := time.Now()
		proxies[0].BlackHole(faultproxy.Both)
		lease, err := acquire(lockers[1], key, policy)
		if err != nil {
			return err
		}
		began := time.Now()
		if n := c.inside.Add(1); n != 1 {
			if longest := stood.Longest(cut, time.Now()); !testing.Short() || longest < margin { // a process that gets no CPU ends late
				err = fmt.Errorf("%d are inside", n)
			}
		} else if at := ended.Load(); at != 0 {
			gaps.add(began.Sub(time.Unix(0, at)))
		}
		time.Sleep(10 * time.Millisecond)
		c.inside.Add(-1)
		return errors.Join(err, release(lease))
	})
	record.Add(t, record.Row{
		Check: 29, Name: "a partition while the lock passes on within the process",
		Goal:   fmt.Sprintf("%d of %d end before the next holder begins", times, times),
		Figure: fmt.Sprintf("%d; before it by %s at least", gaps.count(), short(gaps.quantile(0))),
		Met:    !t.Failed() && gaps.count() > 0,
	})
}

// After the server's clock was set back the fence does not fall either, where the lock is
// taken by force from a process that has used fences of which Redis does not know. (Of a lock that
// was free after that it may fall, so until then somebody always waits for it.)
func TestFencesGrowWhereTheClockIsSetBack(t *testing.T) {
	besideOthers(t)
	clock, option := skew.New(t)
	s := redistest.Real(t, option)
	times := record.Pick(3, 30)
	policy := lockmw.Policy{TTL: 10 * time.Second, Wait: patience}
	grew := 0
	for i := range times {
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		key := fmt.Sprint("k", i)
		c := &crowd{inside: new(atomic.Int64), joined: true}
		c.begin(l, key, 4, policy, 0)
		c.passes(t)
		if err := clock.Set(-time.Duration(i+1) * time.Minute); err != nil {
			t.Fatal(err)
		}
		r := newRest() // or one of them would take the lock once more, and leave it free for a moment
		c.rests.Store(r)
		<-r.inside
		c.stop()
		if err := admin.Force(other, key); err != nil {
			t.Fatal(err)
		}
		next, err := acquire(other, key, policy)
		if err != nil {
			t.Fatal(err)
		}
		close(r.over)
		if last := c.fence.Load(); next.Fence() > last && c.fell.Load() == 0 {
			grew++
		} else {
			t.Errorf("fence %d after %d; %d fell before", next.Fence(), last, c.fell.Load())
		}
		if err := next.Release(context.Background()); err != nil {
			t.Error(err)
		}
		_ = c.disperse() // one has lost the lock
	}
	record.Add(t, record.Row{
		Check: 29, Name: "the clock is set back while the lock passes on within a process, and the lock is taken by force",
		Goal:   fmt.Sprintf("%d of %d fences are higher than all before", times, times),
		Figure: fmt.Sprintf("%d of %d", grew, times),
		Met:    !t.Failed() && grew == times,
	})
}

// Turns within one process need Redis next to never, and so are as fast as the work
// is, however far away it is.
func TestTurnsWithinAProcess(t *testing.T) {
	besideOthers(t)
	const work = time.Millisecond
	lasts := record.Pick(1, 5)
	s := redistest.Shared(t)
	for _, workers := range []int{16, 64} {
		for _, far := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
			proxies, lockers := behindProxies(t, s, 1)
			proxies[0].Delay(faultproxy.Both, far/2)
			c := gather(lockers[0], fmt.Sprint(redistest.Prefix(t), workers, far), workers, lockmw.Policy{TTL: 10 * time.Second, Wait: patience}, work, new(atomic.Int64))
			await.Within(t, patience, "all have had turns", func() bool { return c.number.Load() > int64(4*workers) })
			proxies[0].ResetCommands()
			c.forget()
			from, began := c.number.Load(), time.Now()
			time.Sleep(time.Duration(lasts) * time.Second)
			took, n := time.Since(began), c.number.Load()-from
			commands := 0
			for _, of := range proxies[0].Commands() {
				commands += of
			}
			hold := c.mean()
			if err := c.disperse(); err != nil {
				t.Error(err)
			}
			share := float64(n) * hold.Seconds() / took.Seconds()
			per := float64(commands) / float64(max(n, 1))
			least, most := 0.9, 0.01
			if testing.Short() { // on a machine that is busy with other tests
				least, most = 0.6, 0.1
			}
			record.Add(t, record.Row{
				Check: 28, Name: fmt.Sprintf("turns of %d goroutines of one process, %v inside, Redis %v away", workers, work, far),
				Goal:   "within 10 % of 1 / hold; ≤ 0.01 commands a turn",
				Figure: fmt.Sprintf("%.0f turns/s, %.0f %% of 1 / hold (%s); %.4f commands a turn", float64(n)/took.Seconds(), 100*share, short(hold), per),
				Met:    !t.Failed() && share >= least && per <= most,
			})
		}
	}
}

// within returns how many are at most limit.
func (s *samples) within(limit time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.values)
	n, _ := slices.BinarySearch(s.values, limit+1)
	return n
}
