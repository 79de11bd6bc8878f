package checks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// A free lock is taken by SET, EXISTS, TIME and GET, and others may come before each of
// them. Whoever is told then that it has the lock has it, has overtaken nobody who waits,
// and has a higher fence than whoever was told before.
func TestOthersComeBetweenTheCommandsThatTakeALock(t *testing.T) {
	besideOthers(t)
	const workers = 4
	times := record.Pick(3, 50)
	type meeting struct {
		before, what string
		others       func(*crossing) error
	}
	meetings := []meeting{
		{"SET", "another takes it, and gives it back", (*crossing).takesTurn},
		{"SET", "others wait, and the holder's key is deleted", (*crossing).standsInFront},
		{"SET", "a fence is kept that is ahead of the clock", (*crossing).keepsFence},
		{"EXISTS", "the taker might die", (*crossing).looksForTTL},
		{"EXISTS", "another comes to wait", (*crossing).waits},
		{"TIME", "another comes to wait", (*crossing).waits},
		{"GET", "another comes to wait", (*crossing).waits},
	}
	for _, before := range []string{"EXISTS", "TIME", "GET"} {
		meetings = append(meetings,
			meeting{before, "the key is deleted, another takes it", (*crossing).takesOver},
			meeting{before, "the key is deleted, another takes it, and gives it back", (*crossing).takesTurn})
	}
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	other := testenv.Open(t, s.Client(t))
	proxies, lockers := behindProxies(t, s, workers)
	free := make(chan int, workers)
	for i := range workers {
		if err := cycle(lockers[i], fmt.Sprint(prefix, "first", i)); err != nil { // now it knows the server's clock
			t.Fatal(err)
		}
		free <- i
	}
	var met samples // how long each took
	forEach(t, workers, times*len(meetings), func(i int) error {
		at := <-free
		defer func() { free <- at }()
		m := meetings[i%len(meetings)]
		x := &crossing{locker: lockers[at], other: other, direct: s.Client(t), key: fmt.Sprint(prefix, i)}
		began := time.Now()
		if err := x.meet(proxies[at], m.before, m.others); err != nil {
			return fmt.Errorf("before %s %s: %w", m.before, m.what, err)
		}
		met.add(time.Since(began))
		return nil
	})
	record.Add(t, record.Row{
		Name:   "others come between SET, EXISTS, TIME and GET",
		Goal:   fmt.Sprintf("%d kinds × %d: who is told that it has the lock has it, overtook nobody, and has the highest fence", len(meetings), times),
		Figure: fmt.Sprintf("%d of %d; each took %s", met.count(), times*len(meetings), met.spread()),
		Met:    !t.Failed() && met.count() == times*len(meetings),
	})
}

// A release that comes late, when the lock has passed to another, leaves that one alone,
// and whoever releases is told of the loss.
func TestALateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	besideOthers(t)
	times := record.Pick(20, 200)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	proxies, lockers := behindProxies(t, s, 1)
	p, other, direct := proxies[0], testenv.Open(t, s.Client(t)), s.Client(t)
	if err := cycle(lockers[0], prefix); err != nil { // now it knows the server's clock
		t.Fatal(err)
	}
	texts := redisstore.Scripts()
	releases := faultproxy.MatchScript(texts["give"], texts["release"])
	told, kept := 0, 0
	forEach(t, 1, times, func(i int) error {
		x := &crossing{other: other, direct: direct, key: fmt.Sprint(prefix, i)}
		lease, err := acquire(lockers[0], x.key, lockmw.Policy{TTL: 10 * ttl})
		if err != nil {
			return err
		}
		var once sync.Once
		var failed error
		p.Between(releases, func(_, _ []byte) { once.Do(func() { failed = x.takesOver() }) })
		released := lease.Release(context.Background())
		p.Between(nil, nil)
		once.Do(func() { failed = errors.New("nothing was released") })
		if failed != nil {
			return failed
		}
		if errors.Is(released, lockmw.ErrLost) {
			told++
		}
		if err := x.holds.Release(context.Background()); err != nil {
			return fmt.Errorf("the next holder: %w", err)
		}
		kept++
		return nil
	})
	record.Add(t, record.Row{
		Name:   "a release comes when another has the lock",
		Goal:   fmt.Sprintf("%d of %d are told of the loss, and the other keeps its lock", times, times),
		Figure: fmt.Sprintf("%d told, %d kept it", told, kept),
		Met:    told == times && kept == times,
	})
}

// A hand-over does not wait until the waiter asks again: whoever gives a lock back that
// was taken by SET sees that somebody has come to wait for it.
func TestTheFirstWaiterOfALockIsWoken(t *testing.T) {
	besideOthers(t)
	times := record.Pick(10, 200)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	holder := testenv.Open(t, s.Client(t))
	var mu sync.Mutex
	handed := make(map[string]bool)
	waiter := testenv.Open(t, s.Client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventHandedOver {
			mu.Lock()
			defer mu.Unlock()
			handed[e.Key] = true
		}
	}))
	direct := s.Client(t)
	p := lockmw.Policy{TTL: 30 * time.Second, Wait: patience, RetryInterval: patience} // it asks by itself after 800 ms
	var gaps samples
	turn := func(key string, mode lockmw.Mode) error {
		lease, err := acquire(holder, key, lockmw.Policy{TTL: p.TTL, Mode: mode})
		if err != nil {
			return err
		}
		x := &crossing{other: waiter, direct: direct, key: key, policy: p}
		if err := x.waits(); err != nil {
			return errors.Join(err, lease.Release(context.Background()))
		}
		at := time.Now()
		if err := lease.Release(context.Background()); err != nil {
			return err
		}
		next := <-x.behind
		gaps.add(time.Since(at))
		if next.err != nil {
			return next.err
		}
		return next.lease.Release(context.Background())
	}
	pushed := func(key string) bool {
		mu.Lock()
		defer mu.Unlock()
		return handed[key]
	}
	warm := 0
	await.Within(t, patience, "the waiter's Locker hears of grants", func() bool {
		warm++
		key := fmt.Sprint(prefix, "warm", warm)
		if err := turn(key, lockmw.Shared); err != nil { // a lock of readers is never taken by SET
			t.Fatal(err)
		}
		return comes(100*time.Millisecond, func() bool { return pushed(key) })
	})
	gaps = samples{}
	told := 0
	for i := range times {
		key := fmt.Sprint(prefix, i)
		if err := turn(key, lockmw.Exclusive); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if comes(100*time.Millisecond, func() bool { return pushed(key) }) {
			told++
		}
	}
	least := times * 8 / 10 // where the machine is slow the waiter may have asked by itself
	record.Add(t, record.Row{
		Name:   "the first waiter of a lock that was taken by SET",
		Goal:   fmt.Sprintf("%d of %d or more are handed the lock by its release", least, times),
		Figure: fmt.Sprintf("%d of %d; gap %s", told, times, gaps.spread()),
		Met:    told >= least,
		Note:   "a waiter asks by itself after 800 ms",
	})
}

// A crossing is one call of Acquire for a free lock, and what others do meanwhile.
type crossing struct {
	locker *lockmw.Locker
	other  *lockmw.Locker // past the proxy
	direct *redis.Client
	key    string
	policy lockmw.Policy // of those who wait

	told   int64         // the highest fence that another was told before
	ahead  bool          // another has the lock, or comes first
	holds  *lockmw.Lease // another's
	behind chan outcome  // of one who waits
}

type outcome struct {
	lease *lockmw.Lease
	err   error
}

// meet asks for the lock, has others do something once before that command, and judges
// what came of it. Where no such command was sent, it is done anew with another key: the
// Locker asked by a script, since another key's hash is the same.
func (x *crossing) meet(p *faultproxy.Proxy, before string, others func(*crossing) error) error {
	for try := range 20 {
		x.key = fmt.Sprint(x.key, "-", try)
		var once sync.Once
		came, failed := false, error(nil)
		done := make(chan struct{})
		p.Between(faultproxy.Match(before), func(_, _ []byte) {
			once.Do(func() {
				defer close(done)
				came, failed = true, others(x)
			})
		})
		_, lease, err := x.locker.Acquire(context.Background(), x.key, lockmw.Policy{TTL: 10 * ttl})
		p.Between(nil, nil)
		once.Do(func() { close(done) })
		<-done
		if err == nil && !came {
			err = lease.Release(context.Background())
			if err == nil {
				continue
			}
		}
		return errors.Join(failed, x.judge(lease, err))
	}
	return errors.New("no free lock was asked for by SET")
}

// judge has everybody give back what they have.
func (x *crossing) judge(lease *lockmw.Lease, err error) error {
	ctx := context.Background()
	switch {
	case err != nil && !errors.Is(err, lockmw.ErrNotAcquired):
		return err
	case err != nil && !x.ahead:
		err = fmt.Errorf("refused, though nobody had it: %w", err)
	case err == nil && x.ahead:
		err = errors.New("granted, though another came first")
	case err == nil && lease.Fence() <= x.told:
		err = fmt.Errorf("fence %d after %d", lease.Fence(), x.told)
	default:
		err = nil
	}
	if lease != nil {
		if released := lease.Release(ctx); released != nil {
			err = errors.Join(err, fmt.Errorf("release: %w", released))
		}
	}
	if x.behind != nil {
		next := <-x.behind
		if x.holds = next.lease; next.err != nil {
			err = errors.Join(err, fmt.Errorf("the waiter: %w", next.err))
		} else if lease != nil && next.lease.Fence() <= lease.Fence() {
			err = errors.Join(err, fmt.Errorf("fence %d after %d, of the waiter", next.lease.Fence(), lease.Fence()))
		}
	}
	if x.holds != nil {
		err = errors.Join(err, x.holds.Release(ctx))
	}
	return err
}

// takesTurn is takesOver, and the other gives the lock back.
func (x *crossing) takesTurn() error {
	if err := x.takesOver(); err != nil {
		return err
	}
	lease := x.holds
	x.holds, x.ahead = nil, false
	return lease.Release(context.Background())
}

// takesOver: the key is deleted, and another has the lock from then on.
func (x *crossing) takesOver() error {
	ctx := context.Background()
	if err := x.direct.Del(ctx, redisKey(x.key)).Err(); err != nil {
		return err
	}
	lease, err := acquire(x.other, x.key, lockmw.Policy{TTL: 10 * ttl})
	if err != nil {
		return err
	}
	x.told, x.holds, x.ahead = lease.Fence(), lease, true
	return nil
}

// standsInFront: another waits for a lock whose holder is gone.
func (x *crossing) standsInFront() error {
	ctx := context.Background()
	if err := x.direct.SetNX(ctx, redisKey(x.key), "foreign", 10*ttl).Err(); err != nil {
		return err
	}
	x.ahead = true
	if err := x.waits(); err != nil {
		return err
	}
	return x.direct.Del(ctx, redisKey(x.key)).Err()
}

// keepsFence: the clock is behind the fence of one who has given the lock back.
func (x *crossing) keepsFence() error {
	x.told = time.Now().Add(ttl).UnixMicro()
	return x.direct.Set(context.Background(), redisKey(x.key)+":fence", x.told, 2*ttl).Err()
}

// looksForTTL: what was taken ends by itself, whatever becomes of its taker.
func (x *crossing) looksForTTL() error {
	left, err := x.direct.PTTL(context.Background(), redisKey(x.key)).Result()
	if err == nil && left <= 0 {
		err = fmt.Errorf("the lock's TTL is %v", left)
	}
	return err
}

// waits: another comes to wait for the lock.
func (x *crossing) waits() error {
	ctx := context.Background()
	p := x.policy
	if p == (lockmw.Policy{}) {
		p = lockmw.Policy{TTL: 10 * ttl, Wait: patience}
	}
	behind := make(chan outcome, 1)
	x.behind = behind
	go func() {
		_, lease, err := x.other.Acquire(ctx, x.key, p)
		behind <- outcome{lease, err}
	}()
	came := comes(patience, func() bool {
		select {
		case had := <-behind: // it found the lock free
			behind <- had
			x.ahead = true
			return true
		default:
			return x.direct.Exists(ctx, redisKey(x.key)+":queue").Val() == 1
		}
	})
	if !came {
		return errors.New("nobody waits")
	}
	return nil
}

// cycle takes a lock and gives it back.
func cycle(l *lockmw.Locker, key string) error {
	lease, err := acquire(l, key, lockmw.Policy{TTL: ttl})
	if err != nil {
		return err
	}
	return release(lease)
}
