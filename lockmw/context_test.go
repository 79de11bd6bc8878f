package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// acquirers are the two ways to a lease.
var acquirers = map[string]func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) (context.Context, *lockmw.Lease, error){
	"Acquire": func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) (context.Context, *lockmw.Lease, error) {
		return l.Acquire(ctx, "a", p)
	},
	"AcquireAll": func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) (context.Context, *lockmw.Lease, error) {
		return l.AcquireAll(ctx, []string{"a", "b"}, p)
	},
}

type mark struct{}

// What everybody writes first is right: work that uses the context it gets back
// hears of a loss, finds its lease, and does not wait for itself.
func TestTheContextThatComesBackIsTheLeases(t *testing.T) {
	t.Parallel()
	for name, acquire := range acquirers {
		t.Run(name, func(t *testing.T) {
			m := redistest.Embedded(t)
			l := testenv.Open(t, m.Client(t))
			ctx, lease, err := acquire(context.WithValue(context.Background(), mark{}, "kept"), l, lockmw.Policy{TTL: 3 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lease.Release(ctx) }()
			if found, ok := lockmw.FromContext(ctx); !ok || found.Key() != lease.Key() {
				t.Errorf("FromContext = %v, %v, want the lease", found, ok)
			}
			if ctx.Value(mark{}) != "kept" {
				t.Error("the caller's values are gone")
			}
			if _, _, err := l.Acquire(ctx, "a", lockmw.Policy{Wait: time.Minute}); !errors.Is(err, lockmw.ErrReentrant) {
				t.Errorf("a nested Acquire = %v, want ErrReentrant", err)
			}
			m.Del("lock:{a}")
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the context goes on after the loss")
			}
			if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
				t.Errorf("cause = %v, want ErrLost", cause)
			}
		})
	}
}

func TestAfterARefusalTheContextIsTheCallers(t *testing.T) {
	for name, acquire := range acquirers {
		t.Run(name, func(t *testing.T) {
			m := redistest.Embedded(t)
			l, other := testenv.Open(t, m.Client(t)), testenv.Open(t, m.Client(t))
			defer mustRelease(t, mustAcquire(t, other, "a", lockmw.Policy{}))
			mine := context.WithValue(context.Background(), mark{}, "mine")
			ctx, lease, err := acquire(mine, l, lockmw.Policy{})
			if !errors.Is(err, lockmw.ErrNotAcquired) || lease != nil || ctx != mine {
				t.Errorf("= %v, %v, %v, want the caller's context, no lease, ErrNotAcquired", ctx, lease, err)
			}
		})
	}
}

func TestWithLocksHoldsAllOrRunsNothing(t *testing.T) {
	m := redistest.Embedded(t)
	l, other := testenv.Open(t, m.Client(t)), testenv.Open(t, m.Client(t))
	errWork := errors.New("the work failed")
	keys := []string{"b", "a", "b"}
	err := l.WithLocks(context.Background(), keys, lockmw.Policy{}, func(ctx context.Context) error {
		if lease, ok := lockmw.FromContext(ctx); !ok || lease.Key() != "a, b" || !m.Exists("lock:{a}") || !m.Exists("lock:{b}") {
			t.Errorf("the lease is %v", lease)
		}
		return errWork
	})
	if !errors.Is(err, errWork) || m.Exists("lock:{a}") || m.Exists("lock:{b}") {
		t.Errorf("err = %v, want that of the work, and both locks released", err)
	}
	defer mustRelease(t, mustAcquire(t, other, "b", lockmw.Policy{}))
	err = l.WithLocks(context.Background(), keys, lockmw.Policy{}, func(context.Context) error {
		t.Error("it runs without the lock of b")
		return nil
	})
	if !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("err = %v, want ErrNotAcquired", err)
	}
	await.Until(t, "nothing is held", func() bool { return !m.Exists("lock:{a}") }) // a call that gives up does not wait long for that
}

func TestWithLocksReleasesAfterAPanic(t *testing.T) {
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	func() {
		defer func() {
			if v := recover(); v != "stop" {
				t.Errorf("recovered %v", v)
			}
		}()
		_ = l.WithLocks(context.Background(), []string{"a", "b"}, lockmw.Policy{}, func(context.Context) error { panic("stop") })
	}()
	if m.Exists("lock:{a}") || m.Exists("lock:{b}") {
		t.Error("a panic left the locks")
	}
}
