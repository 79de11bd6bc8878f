package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// Ten times as many callers that leave at once take ten times as long to be back, and not
// a hundred times. The test is not parallel: it keeps the machine busy.
func TestCallersThatLeaveAtOnceCostAsMuchEach(t *testing.T) {
	slow.Test(t)
	const few, many, most = 2_000, 20_000, 30 // times as long
	s := redistest.Real(t)
	direct := s.Client(t)
	d := newDialer(&redis.Options{})
	defer d.close()
	pool := wire.New(wire.Options{
		Size: connsMost, Silence: 10 * patience, // longer than a slow machine takes to start all
		Dial: func(ctx context.Context) (net.Conn, error) { return d.raw(ctx, "tcp", s.Addr()) },
	})
	defer pool.Close()
	command := appendArgs(nil, []any{"SET", "k", "v"})
	// leave returns how long n callers take to be back, the shortest of some times.
	leave := func(n int) (best time.Duration) {
		for range 3 {
			if err := direct.Do(t.Context(), "CLIENT", "PAUSE", patience.Milliseconds()*10, "WRITE").Err(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					c := &wire.Call{Commands: command, Replies: 1, Deadline: time.Now().Add(10 * patience), Late: func([]byte, error) {}}
					if _, err := pool.Do(ctx, c); !errors.Is(err, context.Canceled) {
						t.Errorf("Do = %v, want %v", err, context.Canceled)
					}
				})
			}
			await.Until(t, "all are under way", func() bool { return pool.Open() == n })
			began := time.Now()
			cancel()
			all.Wait()
			if took := time.Since(began); best == 0 || took < best {
				best = took
			}
			if err := direct.ClientUnpause(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "all have their replies", func() bool { return pool.Open() == 0 })
		}
		return best
	}
	// Ten times as many take ten times as long, or a hundred times if each costs as much as there are. A machine that is busy
	// with other tests may slow down the many alone, but not each time.
	for tries := 5; ; tries-- {
		a, b := leave(few), leave(many)
		t.Logf("%d were back within %v, %d within %v: %.1f times as long", few, a, many, b, float64(b)/float64(a))
		if b <= most*a {
			return
		}
		if tries == 1 {
			t.Fatalf("%d were back within %v, and %d within %v, want %d times as long at most", few, a, many, b, most)
		}
	}
}

// Whoever leaves while renewals are under way does not read their replies, which come
// just then. The race detector finds it if they are read.
func TestRenewalsThatAreLeftAreNotRead(t *testing.T) {
	proxy := faultproxy.Start(t, redistest.Shared(t).Addr())
	p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
	r := p.take()
	proxy.Delay(faultproxy.ToClient, opTimeout/2) // as far from the moment when Renew has left as from the end of its time
	ctx, cancel := context.WithCancel(t.Context())
	batch := []store.Renewal{{Ref: r}, {Ref: r}}
	left := make(chan struct{})
	go func() { defer close(left); p.Renew(ctx, batch) }()
	await.Until(t, "they are under way", func() bool { return p.single.Open() == 1 })
	cancel()
	await.Until(t, "the replies have come", func() bool { return p.single.Open() == 0 }) // first: it must not be ordered behind Renew's end
	await.Receive(t, "the end of Renew", left)
	for _, one := range batch {
		if !errors.Is(one.Err, context.Canceled) || one.Held {
			t.Errorf("Renew = %v, %v, want %v", one.Held, one.Err, context.Canceled)
		}
	}
	proxy.Delay(faultproxy.ToClient, 0)
	p.release(r, false, store.Freed)
}

// The user's functions may keep the contexts that they were given, and ask them later:
// when the connection is there, when the call that it was made for has ended, and when the
// Store is closed.
func TestContextsOfSetUpsMayBeKept(t *testing.T) {
	type key struct{}
	var mu sync.Mutex
	kept := make(map[string][]context.Context)
	keep := func(ctx context.Context, who string) {
		mu.Lock()
		defer mu.Unlock()
		kept[who] = append(kept[who], ctx)
	}
	ask := func(when string) {
		mu.Lock()
		defer mu.Unlock()
		for who, all := range kept {
			for _, ctx := range all {
				if v := ctx.Value(key{}); v != nil {
					t.Errorf("%s: Value for %s = %v, want nil", when, who, v)
				}
				_, _ = ctx.Deadline()
				select {
				case <-ctx.Done():
					if ctx.Err() == nil || context.Cause(ctx) == nil {
						t.Errorf("%s: the context of %s is done without an error", when, who)
					}
				default:
				}
			}
		}
	}
	client := redistest.Embedded(t).Client(t, func(o *redis.Options) {
		o.OnConnect = func(ctx context.Context, _ *redis.Conn) error { keep(ctx, "OnConnect"); return nil }
		o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
			keep(ctx, "the credentials provider")
			return "", "", nil
		}
	})
	s, err := New(client, "kit", "test")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := s.Acquire(ctx, store.Request{Ref: store.Ref{Key: fmt.Sprint(i), Token: s.NewToken(""), TTL: time.Minute}})
			if err != nil {
				t.Error(err)
			}
			ask("while calls go on")
		})
	}
	all.Wait()
	ask("later")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ask("after Close")
	for _, who := range []string{"OnConnect", "the credentials provider"} {
		if len(kept[who]) == 0 {
			t.Errorf("%s was not called", who)
		}
	}
}
