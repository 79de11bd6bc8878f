package lockmw

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// prompt is a store that grants everything at once and can do what a Redis can, so
// that a Locker over it does all that it does over one.
type prompt struct{ store.Store }

func (prompt) NewToken(string) string { return strconv.FormatUint(rand.Uint64(), 36) }

func (prompt) Acquire(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{Granted: true, Grant: store.Grant{Fence: 1, Clock: 1}}, nil
}

func (prompt) Release(context.Context, store.Give) (store.Released, store.Answer, error) {
	return store.Freed, store.Answer{}, nil
}

func (prompt) Queues() bool { return true }

func (prompt) TakesSeveral() bool { return true }

func (prompt) EvictionPolicy(context.Context) (string, error) { return "noeviction", nil }

func (prompt) Server(string) string { return "" }

func (prompt) Ping(context.Context, string, store.Progress) error { return nil }

func (prompt) Listen(ctx context.Context, _ store.Listener) error {
	<-ctx.Done()
	return nil
}

func (prompt) Close() error { return nil }

// BenchmarkEngine is a turn without Redis: what a Locker does itself to take a free
// lock and give it back, with 64 callers who have a key each. Run it with -cpu 1,2,4:
// what a turn takes times the cores is to grow little, since nobody waits for anybody.
func BenchmarkEngine(b *testing.B) {
	o, err := gather(nil)
	if err != nil {
		b.Fatal(err)
	}
	o.logger = slog.New(slog.DiscardHandler)
	l := newLocker(prompt{}, o)
	var callers atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		ctx, key := context.Background(), strconv.FormatInt(callers.Add(1), 10)
		p := Policy{TTL: 30 * time.Second, Retries: Forever}
		for pb.Next() {
			_, lease, err := l.Acquire(ctx, key, p)
			if err == nil {
				err = lease.Release(ctx)
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
	if err := l.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
