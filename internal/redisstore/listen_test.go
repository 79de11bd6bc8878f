package redisstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// unnoticed is the longest a dead connection may go unnoticed: about 1.3 s are
// meant, the rest is for a slow machine.
const unnoticed = 3 * time.Second

func TestListenNoticesABlackHole(t *testing.T) {
	slow.Test(t)
	for name, dir := range map[string]faultproxy.Direction{
		"both ways": faultproxy.Both, "requests": faultproxy.ToServer, "replies": faultproxy.ToClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := faultproxy.Start(t, redistest.Shared(t).Addr())
			p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
			e := newEar()
			_, ended := p.listen(e)
			await.Receive(t, "Listening", e.listening)
			proxy.BlackHole(dir)
			start := time.Now()
			err := await.Receive(t, "the end of Listen", ended)
			took := time.Since(start)
			t.Logf("noticed after %v", took)
			if took > unnoticed {
				t.Errorf("noticed after %v, want %v at most", took, unnoticed)
			}
			if e := (*store.Error)(nil); !errors.As(err, &e) || e.Permanent {
				t.Errorf("Listen = %v, want an error that passes", err)
			}
		})
	}
}

// A server that accepts connections and then says nothing.
func TestListenNoticesAServerThatNeverAnswers(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	proxy := faultproxy.Start(t, redistest.Shared(t).Addr())
	proxy.BlackHole(faultproxy.Both)
	p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
	start := time.Now()
	err := p.listenBriefly()
	// It connects twice, and go-redis puts two questions each time.
	if took := time.Since(start); took > 2*4*opTimeout {
		t.Errorf("Listen took %v, want about %v", took, 4*opTimeout)
	}
	if e := (*store.Error)(nil); !errors.As(err, &e) || e.Permanent {
		t.Errorf("Listen = %v, want an error that passes", err)
	}
}

func TestListenNoticesAKilledConnectionAtOnce(t *testing.T) {
	s := redistest.Real(t)
	raw := s.Client(t)
	p := open(t, s.Client(t), "kit")
	quickest := patience // a busy machine does not hold up all
	for range 5 {
		e := newEar()
		_, ended := p.listen(e)
		await.Receive(t, "Listening", e.listening)
		if got, want := (*p.hears())[:1], "v"; got != want {
			t.Errorf("a locker that listens says %q, want %q", got, want)
		}
		do(t, raw, "CLIENT", "KILL", "TYPE", "pubsub")
		start := time.Now()
		err := await.Receive(t, "the end of Listen", ended)
		quickest = min(quickest, time.Since(start))
		wantVerdict(t, "Listen", err, brokenOff, "")
		if got, want := (*p.hears())[:1], "p"; got != want {
			t.Errorf("a locker that listened says %q, want %q", got, want)
		}
	}
	if quickest > soon {
		t.Errorf("noticed after %v, want at once", quickest)
	}
}

// It does not dial again by itself, as go-redis would: where that hangs, whoever listens would learn seconds later that nobody tells it anything.
func TestListenEndsWithItsConnectionAlsoWhereDialsHang(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Start(t, redistest.Shared(t).Addr())
	p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
	e := newEar()
	_, ended := p.listen(e)
	await.Receive(t, "Listening", e.listening)
	proxy.BlackHole(faultproxy.ToClient)
	began := time.Now()
	proxy.Cut()
	if err := await.Receive(t, "the end of Listen", ended); err == nil {
		t.Error("Listen = nil, want an error")
	}
	if took := time.Since(began); took > 2*time.Second { // a dial that hangs takes longer
		t.Errorf("Listen ended after %v", took)
	}
}

func TestListenHearsAgainWhenCalledAnew(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		proxy, p, holder := proxied(t, s)
		for range 3 {
			e := newEar()
			_, ended := p.listen(e)
			await.Receive(t, "Listening", e.listening)
			held, waits := holder.take(), p.ref(time.Minute)
			p.refused(waits, store.Wait)
			holder.release(held, false, store.HandedOver)
			if g := await.Receive(t, "the grant", e.grants); g.Ref.Token != waits.Token {
				t.Errorf("heard of a grant to %s, want %s", g.Ref.Token, waits.Token)
			}
			p.release(waits, false, store.Freed)
			proxy.Cut()
			await.Receive(t, "the end of Listen", ended)
			_, _ = p.Inspect(t.Context(), "k") // finds out that the connection for commands has gone, too
			if n := len(e.listening); n != 0 {
				t.Errorf("Listening was called %d times more, want once for each call of Listen", n)
			}
		}
	})
}

func TestListenEndsWithItsContext(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		proxy, p, _ := proxied(t, s)
		before := proxy.Connections()
		ctx, cancel := context.WithCancelCause(t.Context())
		e, ended := newEar(), make(chan error, 1)
		go func() { ended <- p.Listen(ctx, e) }()
		await.Receive(t, "Listening", e.listening)
		cancel(errGaveUp)
		if err := await.Receive(t, "the end of Listen", ended); !errors.Is(err, errGaveUp) {
			t.Errorf("Listen = %v, want the context's cause %v", err, errGaveUp)
		}
		await.Until(t, "its connection is closed", func() bool { return proxy.Connections() == before })
	})
}

// Also while it still tries to connect.
func TestListenEndsWithItsContextBeforeItListens(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Start(t, redistest.Shared(t).Addr())
	proxy.BlackHole(faultproxy.Both)
	p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Listen(ctx, newEar()) }()
	await.Until(t, "it connects", func() bool { return proxy.Connections() > 0 })
	cancel()
	start := time.Now()
	if err := await.Receive(t, "the end of Listen", ended); err == nil {
		t.Error("Listen = nil, which says that there is nothing to hear, ever")
	}
	if took := time.Since(start); took > 3*opTimeout {
		t.Errorf("Listen took %v to end, want about %v at most", took, opTimeout)
	}
	await.Until(t, "its connection is closed", func() bool { return proxy.Connections() == 0 })
}

// Silence on the channel is not silence of the connection.
func TestListenStaysWhenThereIsNothingToHear(t *testing.T) {
	slow.Test(t)
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		t.Parallel()
		proxy, p, _ := proxied(t, s)
		e := newEar()
		_, ended := p.listen(e)
		await.Receive(t, "Listening", e.listening)
		await.Until(t, "it pinged often", func() bool { return proxy.Commands()["PING"] >= 5 })
		if len(ended) != 0 {
			t.Errorf("Listen = %v, want it to go on", <-ended)
		}
		if n := len(e.listening); n != 0 {
			t.Errorf("Listening was called %d times more, want once", n)
		}
	})
}

// The channel is open to everybody who may publish.
func TestListenIgnoresWhatIsNoGrant(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, holder := open(t, client, ns), open(t, client, ns)
		e := p.hear()
		lock := p.keys("k")[0]
		for _, news := range []string{
			"", " ", "    ", "hello", "a b c d", "token 1 2 3 0", "token x 2 3 0 " + lock, "token 1 x 3 0 " + lock, "token 1 2 x 0 " + lock,
			"token 1 2 3 x " + lock, "token 1 2 3 0 elsewhere:{k}", "token 1 2 3 0 " + lock[:len(lock)-1], "token 1 2 3 0 k",
			"token 99999999999999999999 2 3 0 " + lock, "\x00\xff", "token  1 2 3 0 " + lock,
			"contended", "contended 1", "contended x token " + lock, "contended 1 token", "contended 1 token elsewhere:{k}",
			"revoked", "revoked token", "revoked token elsewhere:{k}",
			"revoking", "revoking token", "revoking token ana", "revoking token ana INC-42 elsewhere:{k}", "revoking token ana " + lock,
		} {
			if err := client.Publish(t.Context(), p.channels+p.locker, news).Err(); err != nil {
				t.Fatal(err)
			}
		}
		held, waits := holder.take(), p.ref(time.Minute)
		p.refused(waits, store.Wait)
		holder.release(held, false, store.HandedOver)
		if g := await.Receive(t, "the grant", e.grants); g.Ref.Token != waits.Token {
			t.Errorf("heard of a grant to %+v, want %s", g, waits.Token)
		}
		if len(e.othersWait) > 0 || len(e.revoked) > 0 || e.takes != (store.Intervention{}) {
			t.Errorf("heard of %d who wait, and of %d locks that were taken", len(e.othersWait), len(e.revoked))
		}
	})
}

// Two lockers, or two namespaces, do not hear each other's grants.
func TestChannelsDiffer(t *testing.T) {
	client := redistest.Embedded(t).Client(t)
	seen := make(map[string]bool)
	for _, ns := range []string{"a", "a", "b", "b"} {
		p := open(t, client, ns)
		channel := p.channels + p.locker
		if seen[channel] {
			t.Errorf("two stores have the channel %s", channel)
		}
		seen[channel] = true
	}
}

func TestManyGrantsArriveInOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		const n = 60
		client, ns := s.Client(t), redistest.Prefix(t)
		p, holder := open(t, client, ns), open(t, client, ns)
		e := p.hear()
		for i := range n {
			name := fmt.Sprint("lock ", i)
			held := store.Ref{Key: name, Token: holder.NewToken(""), TTL: time.Minute}
			holder.get(held, store.Try)
			p.refused(store.Ref{Key: name, Token: p.NewToken(""), TTL: time.Minute}, store.Wait)
			holder.release(held, false, store.HandedOver)
		}
		for i := range n {
			if g, want := await.Receive(t, "a grant", e.grants), fmt.Sprint("lock ", i); g.Ref.Key != want {
				t.Fatalf("grant %d is of %q, want %q", i, g.Ref.Key, want)
			}
		}
	})
}
