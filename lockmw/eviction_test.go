package lockmw_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Observers hear of a server that may evict locks, also where nobody has given a
// logger, and whichever way locks are taken. The volatile policies evict locks
// first: each has a TTL.
func TestObserversAreWarnedOfEviction(t *testing.T) {
	for name, keys := range map[string][]string{"one key": {"k"}, "many keys": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			if err := s.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got := warnings(t, s.Client(t), keys)
			for try := 1; len(got) == 0 && stoodStill(began) && try < 5; try++ { // each Locker asks once, and not for longer than a second
				began = time.Now()
				got = warnings(t, s.Client(t), keys)
			}
			if len(got) != 1 {
				t.Fatalf("warned by %+v, want one warning", got)
			}
			if e := got[0]; !strings.Contains(e.Err.Error(), "volatile-lru") || e.Key != "" {
				t.Errorf("warned by %+v, want an error that names the policy, and no key", e)
			}
		})
	}
}

// warnings has a Locker take locks, and returns what its observer was warned of.
func warnings(t *testing.T, client *redis.Client, keys []string) (all []lockmw.Event) {
	t.Helper()
	warned := make(chan lockmw.Event, 10)
	l := testenv.Open(t, client, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventServerWarning {
			warned <- e
		}
	}))
	for range 3 {
		_, lease, err := l.AcquireAll(t.Context(), keys, lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, lease)
	}
	select {
	case e := <-warned:
		all = append(all, e)
	case <-time.After(3 * time.Second):
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for len(warned) > 0 {
		all = append(all, <-warned)
	}
	return all
}
