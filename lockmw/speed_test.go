package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/lockmw"
)

func benchLocker(tb testing.TB) *lockmw.Locker {
	l, err := lockmw.New(redistest.Shared(tb).Client(tb, func(o *redis.Options) { o.PoolSize = 64 }), lockmw.WithNamespace(redistest.Prefix(tb)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

func BenchmarkAcquireRelease(b *testing.B) {
	for name, p := range map[string]lockmw.Policy{
		"one attempt": {TTL: 30 * time.Second},
		"waits":       {TTL: 30 * time.Second, Retries: lockmw.Forever},
	} {
		b.Run(name, func(b *testing.B) {
			l := benchLocker(b)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Acquire(ctx, "k", p)
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
