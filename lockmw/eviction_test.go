package lockmw_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/lockmw"
)

// Observers hear of a server that may evict locks, also where nobody has given a
// logger. The volatile policies evict locks first: each has a TTL.
func TestObserversAreWarnedOfEviction(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	if err := s.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err(); err != nil {
		t.Fatal(err)
	}
	warned := make(chan lockmw.Event, 10)
	l := newLocker(t, s.Client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventServerWarning {
			warned <- e
		}
	}))
	for range 3 {
		mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
	}
	if e := <-warned; !strings.Contains(e.Err.Error(), "volatile-lru") || e.Key != "" {
		t.Errorf("warned by %+v, want an error that names the policy, and no key", e)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := len(warned); n > 0 {
		t.Errorf("warned %d times more", n)
	}
}
