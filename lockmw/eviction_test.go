package lockmw_test

import (
	"context"
	"strings"
	"testing"
	"time"

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
			warned := make(chan lockmw.Event, 10)
			l := testenv.Open(t, s.Client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
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
				if !strings.Contains(e.Err.Error(), "volatile-lru") || e.Key != "" {
					t.Errorf("warned by %+v, want an error that names the policy, and no key", e)
				}
			case <-time.After(20 * time.Second):
				t.Error("not warned")
			}
			if err := l.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n := len(warned); n > 0 {
				t.Errorf("warned %d times more", n)
			}
		})
	}
}
