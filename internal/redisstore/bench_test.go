package redisstore

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// All benchmarks run against the real server: the embedded one takes ten
// times as long for a script.

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := New(redistest.Shared(b).Client(b, func(o *redis.Options) { o.PoolSize = 64 }), redistest.Prefix(b), "test")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func lockAndUnlock(ctx context.Context, b *testing.B, s *Store, key string) {
	b.Helper()
	r := store.Ref{Key: key, Token: s.NewToken(""), TTL: 30 * time.Second}
	a, err := s.Acquire(ctx, store.Request{Ref: r, Join: store.Wait})
	if err != nil || !a.Granted {
		b.Errorf("Acquire = %+v, %v", a, err)
	}
	if got, _, err := s.Release(ctx, store.Give{Ref: r}); err != nil || got != store.Freed {
		b.Errorf("Release = %v, %v", got, err)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	for name, ctx := range map[string]context.Context{
		"plain":       context.Background(),
		"cancellable": b.Context(), // asks on a goroutine of its own
	} {
		b.Run(name, func(b *testing.B) {
			s := benchStore(b)
			b.ReportAllocs()
			for b.Loop() {
				lockAndUnlock(ctx, b, s, "k")
			}
		})
	}
}

// BenchmarkAcquireReleaseParallel has 64 goroutines, each with a lock of its own.
func BenchmarkAcquireReleaseParallel(b *testing.B) {
	s := benchStore(b)
	var next atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		key := strconv.FormatInt(next.Add(1), 10)
		for pb.Next() {
			lockAndUnlock(b.Context(), b, s, key)
		}
	})
}

// BenchmarkHandOver has two tokens pass a lock to and fro.
func BenchmarkHandOver(b *testing.B) {
	s := benchStore(b)
	ctx := b.Context()
	e := newEar()
	listening, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(listening, e) }()
	defer func() { stop(); <-ended }()
	<-e.listening

	refs := [2]store.Ref{}
	for i := range refs {
		refs[i] = store.Ref{Key: "k", Token: s.NewToken(""), TTL: 30 * time.Second}
	}
	if _, err := s.Acquire(ctx, store.Request{Ref: refs[0]}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Acquire(ctx, store.Request{Ref: refs[(i+1)%2], Join: store.Wait}); err != nil {
			b.Fatal(err)
		}
		if _, _, err := s.Release(ctx, store.Give{Ref: refs[i%2]}); err != nil {
			b.Fatal(err)
		}
		if g := <-e.grants; g.Ref.Token != refs[(i+1)%2].Token {
			b.Fatalf("granted to %s", g.Ref.Token)
		}
	}
}

func BenchmarkRenew100(b *testing.B) {
	s := benchStore(b)
	batch := make([]store.Renewal, 100)
	for i := range batch {
		batch[i].Ref = store.Ref{Key: strconv.Itoa(i), Token: s.NewToken(""), TTL: 30 * time.Second}
		if _, err := s.Acquire(b.Context(), store.Request{Ref: batch[i].Ref}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Renew(b.Context(), batch)
	}
	for _, r := range batch {
		if !r.Held || r.Err != nil {
			b.Fatalf("renewal = %v, %v", r.Held, r.Err)
		}
	}
}
