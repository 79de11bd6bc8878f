package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// heldFor is the TTL of a lease that outlasts the fail-over.
const heldFor = 3 * ttl

// followWithin is how soon after the user's own failover client locks go to the new master.
func followWithin() time.Duration { return time.Second + onBusyMachine() }

// toldWithin is how soon a holder is told that its lock is not at the new master: by the next renewal.
func toldWithin() time.Duration { return heldFor/3 + 500*time.Millisecond + onBusyMachine() }

// onBusyMachine is what the short slice has more time for, because one process or another may
// stand still meanwhile. The old master is none for some seconds longer than that.
func onBusyMachine() time.Duration { return time.Duration(record.Pick(3, 0)) * time.Second }

// The master freezes, its replica takes over, and the old one goes on as if nothing
// had been, until the Sentinels make it a replica some ten seconds later. Whoever
// stays with it meanwhile holds locks beside the new master's.
func TestLocksLeaveAMasterThatIsNoneAnyMore(t *testing.T) {
	times := record.Pick(1, 20)
	w := redistest.Sentinel(t, redistest.DownSoon())
	users := w.Client(t)
	lockers := []*lockmw.Locker{testenv.Open(t, users), testenv.Open(t, w.Client(t))}
	in := newInside()
	stop := work(t, lockers, in)
	defer stop()
	var followed, told samples
	for i := range times {
		if err := loseMaster(t, w, users, lockers[0], in, &followed, &told); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	stop()
	record.Add(t, record.Row{
		Check: 25, Name: "Sentinel: the old master",
		Goal: fmt.Sprintf("%d of %d follow within %v of the user's client; held leases (TTL %v) are told within %v; 0 double holds after that", times, times, followWithin(), heldFor, toldWithin()),
		Figure: fmt.Sprintf("followed within %v at most, told within %v at most; %d double holds, %d after that, %d locks taken",
			followed.quantile(1), told.quantile(1), in.double.Load(), in.late.Load(), in.taken.Load()),
		Met: followed.quantile(1) <= followWithin() && told.quantile(1) <= toldWithin() && in.late.Load() == 0 && !t.Failed(),
	})
}

// loseMaster carries out the fault once, and returns when one of the two servers is a replica of the other.
func loseMaster(t *testing.T, w *redistest.Watched, users *redis.Client, locker *lockmw.Locker, in *inside, followed, told *samples) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	old, err := w.Master(ctx)
	if err != nil {
		return err
	}
	lease, err := acquire(locker, "held", lockmw.Policy{TTL: heldFor, Wait: patience})
	if err != nil {
		return err
	}
	defer lease.Release(context.WithoutCancel(ctx))
	in.after(time.Time{})
	if err := old.Stop(); err != nil {
		return err
	}
	if err := until(ctx, "the user's client writes to the new master", func(ctx context.Context) bool {
		return users.Set(ctx, "there", "", time.Minute).Err() == nil
	}); err != nil {
		return err
	}
	began := time.Now()
	in.after(began.Add(followWithin()))
	if err := old.Cont(); err != nil {
		return err
	}
	now := w.Other(old) // not what a Sentinel says: it may not have heard of it yet
	raw := redis.NewClient(redistest.Options(now.Addr()))
	defer raw.Close()
	if err := raw.Del(ctx, "lock:{held}").Err(); err != nil { // the replica may have known it
		return err
	}
	asked := time.Now()
	if err := until(ctx, "a lock is at the new master", func(ctx context.Context) bool {
		_, l, err := locker.Acquire(ctx, "new", lockmw.Policy{TTL: ttl})
		if err != nil {
			return false
		}
		n := raw.Exists(ctx, "lock:{new}").Val()
		_ = l.Release(ctx)
		return n == 1
	}); err != nil {
		return err
	}
	followed.add(time.Since(began))
	select {
	case <-lease.Context().Done():
		told.add(time.Since(asked))
		if !errors.Is(context.Cause(lease.Context()), lockmw.ErrLost) {
			return fmt.Errorf("the lease ended with %w", context.Cause(lease.Context()))
		}
	case <-ctx.Done():
		return errors.New("the lease was not told that it is lost")
	}
	then := redis.NewClient(redistest.Options(old.Addr()))
	defer then.Close()
	// On a machine that stands for seconds the Sentinels may make the old one the master again.
	return until(ctx, "one of the two is a replica", func(ctx context.Context) bool {
		return slices.ContainsFunc([]*redis.Client{then, raw}, func(c *redis.Client) bool {
			said := c.Info(ctx, "replication").Val()
			return strings.Contains(said, "role:slave") && strings.Contains(said, "master_link_status:up")
		})
	})
}

// until asks cond, a second at most at a time, until it is true.
func until(ctx context.Context, what string, cond func(context.Context) bool) error {
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		ok := cond(once)
		cancel()
		if ok {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s", what)
		}
	}
}

// An inside counts who is inside of which lock.
type inside struct {
	taken, double, late atomic.Int64

	mu      sync.Mutex
	holders map[string]*lockmw.Lease
	from    time.Time // double holds are late
}

func newInside() *inside { return &inside{holders: make(map[string]*lockmw.Lease)} }

func (in *inside) after(from time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.from = from
}

// enter notes that l is inside, and whether another is.
func (in *inside) enter(l *lockmw.Lease) (leave func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.taken.Add(1)
	if with := in.holders[l.Key()]; with != nil && with.Valid() && l.Valid() {
		in.double.Add(1)
		if !in.from.IsZero() && time.Now().After(in.from) {
			in.late.Add(1)
		}
	}
	in.holders[l.Key()] = l
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.holders[l.Key()] == l {
			delete(in.holders, l.Key())
		}
	}
}

// work has the lockers take a few locks all the time.
func work(t *testing.T, lockers []*lockmw.Locker, in *inside) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for i := range 8 {
		working.Go(func() {
			for ctx.Err() == nil {
				key := fmt.Sprint("busy", i/2%2)
				_, l, err := lockers[i%2].Acquire(ctx, key, lockmw.Policy{TTL: ttl, Wait: time.Second})
				if err != nil { // at once, while Redis is known to be away
					time.Sleep(10 * time.Millisecond)
					continue
				}
				leave := in.enter(l)
				select {
				case <-time.After(5 * time.Millisecond):
				case <-l.Context().Done():
				}
				leave()
				_ = l.Release(context.WithoutCancel(ctx))
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); working.Wait() })
}
