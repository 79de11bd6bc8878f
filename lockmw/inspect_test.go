package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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
		for _, policy := range []lockmw.Policy{{TTL: time.Second}, {TTL: time.Second, Mode: lockmw.Shared}, {TTL: time.Second, Permits: 1}} {
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
	old := mustAcquire(t, a, "k", lockmw.Policy{TTL: 10 * time.Second}) // its nodes have a second to answer
	ns[1].Kill()
	info := mustInspect(t, b, "k")
	if !info.Held || len(info.Holders) != 1 || info.Holders[0].Instance != a.Instance() {
		t.Errorf("%+v, want %s", info, a.Instance())
	}
	if err := b.ForceRelease(context.Background(), "k"); err != nil {
		t.Fatal(err)
	}
	next := mustAcquire(t, b, "k", lockmw.Policy{Wait: 20 * time.Second})
	lockmw.RenewAll(a) // finds it taken
	<-old.Context().Done()
	mustRelease(t, next)
}
