package doortest

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/lockmw"
)

// Instant opens a Locker without Redis that gets every lock at once, also one
// that is held. It is closed when the test ends.
func Instant(tb testing.TB) *lockmw.Locker {
	tb.Helper()
	return instantWith(tb)
}

// instantWith is Instant with options.
func instantWith(tb testing.TB, opts ...lockmw.Option) *lockmw.Locker {
	tb.Helper()
	all := make([]any, len(opts))
	for i, opt := range opts {
		all[i] = opt
	}
	locks := seam.NewLocker(new(yes), all...).(*lockmw.Locker)
	tb.Cleanup(func() {
		if err := locks.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return locks
}

// yes is a store that grants everything at once, to everybody: what is measured
// over it is all but Redis.
type yes struct {
	store.Store // nil: what no door asks
	tokens      atomic.Int64
}

var _ store.Store = (*yes)(nil)

func (s *yes) NewToken(string) string { return strconv.FormatInt(s.tokens.Add(1), 36) }

func (s *yes) Acquire(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{Granted: true}, nil
}

func (s *yes) Release(context.Context, store.Give) (store.Released, store.Answer, error) {
	return store.Freed, store.Answer{}, nil
}

func (s *yes) Queues() bool { return false }

func (s *yes) TakesSeveral() bool { return false }

func (s *yes) EvictionPolicy(context.Context) (string, error) { return "noeviction", nil }

func (s *yes) Server(string) string { return "" }

func (s *yes) Ping(context.Context, string, store.Progress) error { return nil }

func (s *yes) Renew(_ context.Context, batch []store.Renewal) {
	for i := range batch {
		batch[i].Held = true
	}
}

func (s *yes) Listen(context.Context, store.Listener) error { return nil }

func (s *yes) Close() error { return nil }
