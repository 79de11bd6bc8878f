package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func mustInspect(tb testing.TB, l *lockmw.Locker, key string) lockmw.Info {
	tb.Helper()
	info, err := l.Inspect(context.Background(), key)
	if err != nil {
		tb.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", info); uuids.MatchString(text) {
		tb.Errorf("a token is shown: %s", text)
	}
	return info
}

// uuids matches what of a token is secret.
var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-`)

func TestInspectTellsWhoHoldsALock(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		a, b := testenv.Open(t, c), testenv.Open(t, c)
		if info := mustInspect(t, b, key); info.Held || len(info.Holders) > 0 || info.Waiting > 0 || info.Key != key {
			t.Errorf("free: %+v", info)
		}
		for _, tc := range []struct {
			policy  lockmw.Policy
			holders int
		}{
			{lockmw.Policy{TTL: time.Minute}, 1},
			{lockmw.Policy{TTL: time.Minute, Mode: lockmw.Shared}, 3},
			{lockmw.Policy{TTL: time.Minute, Permits: 3}, 3},
		} {
			var leases []*lockmw.Lease
			for range tc.holders {
				leases = append(leases, mustAcquire(t, a, key, tc.policy))
			}
			waiter := make(chan *lockmw.Lease, 1)
			go func() {
				_, lease, err := b.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute})
				if err != nil {
					t.Error(err)
				}
				waiter <- lease
			}()
			await.Within(t, 5*time.Second, "one waits", func() bool { return mustInspect(t, b, key).Waiting == 1 })

			info := mustInspect(t, b, key)
			if !info.Held || info.Mode != tc.policy.Mode || info.Permits != tc.policy.Permits || len(info.Holders) != tc.holders {
				t.Errorf("%+v: %+v", tc.policy, info)
			}
			for i, h := range info.Holders {
				if h.Instance != a.Instance() || h.Age <= 0 || h.Age > time.Minute || h.Left <= 0 || h.Left > time.Minute {
					t.Errorf("holder %d: %+v, want one of %s", i, h, a.Instance())
				}
				if i > 0 && h.Age > info.Holders[i-1].Age {
					t.Errorf("holder %d has the lock longer than the one before", i)
				}
			}
			for _, lease := range leases {
				mustRelease(t, lease)
			}
			mustRelease(t, <-waiter)
		}
		noKeys(t, c, key, 0)
	})
}

// Each waiter is told in its turn; of those who wait for a mutex in one Locker, the first.
func TestInspectTellsWhoWaits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var lockers []*lockmw.Locker
		for i := range 5 {
			note := fmt.Sprintf("job: %d.%d\x1b", i, i)
			lockers = append(lockers, testenv.Open(t, c, lockmw.WithNote(func(context.Context) string { return note })))
		}
		holder := mustAcquire(t, lockers[0], key, patient)
		var waiting []<-chan *lockmw.Lease
		reader, permit := patient, patient
		reader.Mode, permit.Permits = lockmw.Shared, 3
		policies := []lockmw.Policy{1: patient, 2: reader, 3: permit, 4: patient}
		calls := 0
		for i, p := range policies[1:] {
			n := 1 + i%2*2 // of 2 and 4 there are three
			calls += n
			waiting = append(waiting, lineUp(t, lockers[1+i], key, p, n))
			await.Within(t, 5*time.Second, "all are counted", func() bool { return mustInspect(t, lockers[0], key).Waiting == calls })
		}
		want := []int{1, 2, 2, 2, 3, 4} // readers do not rest
		got := mustInspect(t, lockers[0], key).Waiters
		if len(got) != len(want) {
			t.Fatalf("%+v wait, want %d", got, len(want))
		}
		for i, w := range got {
			n := want[i]
			if w.Instance != lockers[n].Instance() || w.Note != fmt.Sprintf("job: %d.%d\uFFFD", n, n) || w.Mode != policies[n].Mode || w.Permits != policies[n].Permits {
				t.Errorf("waiter %d: %+v, want one of %s for %+v", i, w, lockers[n].Instance(), policies[n])
			}
			if w.Waited <= 0 || w.Waited > time.Minute || i > 0 && w.Waited > got[i-1].Waited {
				t.Errorf("waiter %d has waited for %v, behind %+v", i, w.Waited, got[max(i-1, 0)])
			}
		}
		mustRelease(t, holder)
		var inside sync.WaitGroup // readers, and permits, are there together
		for _, leases := range waiting {
			inside.Go(func() {
				for range cap(leases) {
					_ = (<-leases).Release(context.Background()) // on a slow machine the first TTL may be over
				}
			})
		}
		inside.Wait()
		if info := mustInspect(t, lockers[0], key); info.Waiters != nil {
			t.Errorf("%+v wait, want nobody", info.Waiters)
		}
	})
}

func TestInspectTellsTheFirstTwentyWhoWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		holder := mustAcquire(t, other, key, patient)
		reader := patient
		reader.Mode = lockmw.Shared
		waiting := lineUp(t, l, key, reader, 23)
		await.Within(t, 5*time.Second, "all wait", func() bool { return mustInspect(t, other, key).Waiting == cap(waiting) })
		info := mustInspect(t, other, key)
		if len(info.Waiters) != 20 {
			t.Errorf("%d of %d are told, want 20", len(info.Waiters), info.Waiting)
		}
		mustRelease(t, holder)
		for range cap(waiting) {
			_ = (<-waiting).Release(context.Background()) // on a slow machine the first TTL may be over
		}
	})
}

func TestInspectShowsAForeignHolder(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		if err := c.Set(context.Background(), "lock:{"+key+"}", "their.token", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		info := mustInspect(t, l, key)
		if !info.Held || len(info.Holders) != 1 || info.Holders[0].Instance != "" || info.Holders[0].Left <= 0 {
			t.Errorf("%+v", info)
		}
		if err := l.ForceRelease(context.Background(), key); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{}))
	})
}

func TestForceReleaseServesTheNextWaiter(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		for _, policy := range []lockmw.Policy{{TTL: 5 * time.Second}, {TTL: 5 * time.Second, Mode: lockmw.Shared}, {TTL: 5 * time.Second, Permits: 1}} {
			a, b, operator := testenv.Open(t, c), testenv.Open(t, c), testenv.Open(t, c)
			old := mustAcquire(t, a, key, policy)
			waiter := make(chan *lockmw.Lease, 1)
			go func() {
				_, lease, err := b.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute})
				if err != nil {
					t.Error(err)
				}
				waiter <- lease
			}()
			await.Within(t, 5*time.Second, "one waits", func() bool { return mustInspect(t, b, key).Waiting == 1 })
			if err := operator.ForceRelease(context.Background(), key); err != nil {
				t.Fatal(err)
			}
			next := <-waiter
			if next.Fence() <= old.Fence() {
				t.Errorf("fence %d after %d", next.Fence(), old.Fence())
			}
			lockmw.RenewAll(a)
			select {
			case <-old.Context().Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the former holder is not told")
			}
			if err := old.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("the former holder's release: %v", err)
			}
			if !next.Valid() {
				t.Error("the former holder's release took the lock from the next one")
			}
			mustRelease(t, next)
			if err := operator.ForceRelease(context.Background(), key); err != nil {
				t.Errorf("of a free lock: %v", err)
			}
		}
	})
}

func TestOperatorsAreToldWhatIsWrong(t *testing.T) {
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	ctx := context.Background()
	if _, err := l.Inspect(ctx, "a{b"); !errors.Is(err, lockmw.ErrInvalidKey) {
		t.Errorf("invalid key: %v", err)
	}
	m.HSet("lock:{k}", "a", "b")
	if _, err := l.Inspect(ctx, "k"); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("other data: %v", err)
	}
	if err := l.ForceRelease(ctx, "k"); !errors.Is(err, lockmw.ErrUnavailable) || !m.Exists("lock:{k}") {
		t.Errorf("other data: %v", err)
	}
	m.Close()
	if err := l.ForceRelease(ctx, "j"); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Redis is down: %v", err)
	}
	_ = l.Close(over())
	if _, err := l.Inspect(ctx, "k"); !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestQuorumIsInspectedAndForced(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ns := newNodes(t, 3)
	a, b := ns.locker(t), ns.locker(t)
	var old *lockmw.Lease
	key := onAllNodes(t, ns, "", func(key string) {
		old = mustAcquire(t, a, key, lockmw.Policy{TTL: 10 * time.Second}) // its nodes have a second to answer
	})
	ns[1].Kill()
	info := mustInspect(t, b, key)
	if !info.Held || len(info.Holders) != 1 || info.Holders[0].Instance != a.Instance() {
		t.Errorf("%+v, want %s", info, a.Instance())
	}
	if err := b.ForceRelease(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	next := mustAcquire(t, b, key, lockmw.Policy{Wait: 20 * time.Second})
	lockmw.RenewAll(a) // finds it taken
	<-old.Context().Done()
	mustRelease(t, next)
}
