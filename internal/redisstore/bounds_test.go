package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// unheard returns a Store that nobody answers any more, which it has not found out: from then on its questions are not put.
func unheard(t *testing.T) *probe {
	t.Helper()
	proxy, p, _ := proxied(t, redistest.Shared(t))
	proxy.BlackHole(faultproxy.Both)
	return p
}

func TestAQuestionIsBoundedByItsTimeout(t *testing.T) {
	for _, ctx := range []context.Context{t.Context(), context.Background()} {
		inTime(t, "Acquire", soon, func() time.Duration {
			p := unheard(t)
			start := time.Now()
			_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Until: time.Now().Add(brief)})
			took := time.Since(start)
			if took < brief {
				t.Errorf("Acquire with a timeout of %v took %v", brief, took)
			}
			wantSilence(t, "Acquire", err)
			return took
		})
	}
}

// Without a bound of the caller's there is one all the same.
func TestAQuestionIsBoundedAnyway(t *testing.T) {
	t.Parallel()
	proxy, p, _ := proxied(t, redistest.Shared(t))
	proxy.BlackHole(faultproxy.Both)
	questions := map[string]func() error{
		"Acquire without a timeout": func() error {
			_, err := p.Acquire(context.Background(), store.Request{Ref: p.ref(time.Minute)})
			return err
		},
		"Acquire with a timeout of a minute": func() error {
			_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute), Until: time.Now().Add(time.Minute)})
			return err
		},
		"Release": func() error {
			_, _, err := p.Release(context.Background(), store.Give{Ref: p.ref(time.Minute)})
			return err
		},
		"Renew": func() error {
			batch := []store.Renewal{{Ref: p.ref(time.Minute)}}
			p.Renew(context.Background(), batch)
			return batch[0].Err
		},
	}
	type outcome struct {
		what string
		err  error
		took time.Duration
	}
	outcomes := make(chan outcome, len(questions))
	for what, ask := range questions { // side by side, for each takes a second
		go func() {
			start := time.Now()
			err := ask()
			outcomes <- outcome{what, err, time.Since(start)}
		}()
	}
	for range questions {
		o := await.Receive(t, "a question to return", outcomes)
		if o.took > 3*opTimeout {
			t.Errorf("%s took %v, want about %v", o.what, o.took, opTimeout)
		}
		wantSilence(t, o.what, o.err)
	}
}

func TestAReleaseIsBounded(t *testing.T) {
	inTime(t, "Release", soon, func() time.Duration {
		p := unheard(t)
		start := time.Now()
		_, _, err := p.Release(t.Context(), store.Give{Ref: p.ref(time.Minute), Until: start.Add(brief)})
		p.idle() // nor does anything go on behind it
		took := time.Since(start)
		if took < brief {
			t.Errorf("Release with a timeout of %v took %v", brief, took)
		}
		wantSilence(t, "Release", err)
		return took
	})
}

// A Release may ask two scripts: give.lua, and release.lua where that did nothing. They
// share one bound.
func TestAReleaseIsBoundedOnce(t *testing.T) {
	t.Parallel()
	mini := redistest.Embedded(t)
	client := mini.Client(t)
	p := bySet(t, client, "kit")
	p.release(p.took(client), false, store.Freed) // now the server knows give.lua, too
	hook := newHook(mini)
	r := p.took(client)
	mini.Del(p.keys("k")[0]) // so give.lua does nothing
	var asked int
	var gave atomic.Pointer[time.Time] // when give.lua was answered
	var took time.Duration
	var err error
	returned := make(chan struct{})
	hook.during(func() {
		defer close(returned)
		_, _, err = p.Release(context.Background(), store.Give{Ref: r})
		if at := gave.Load(); at != nil {
			took = time.Since(*at)
		}
	}, func(cmd string) (more bool) {
		if cmd != "EVALSHA" {
			return true
		}
		if asked++; asked == 1 {
			<-time.After(opTimeout / 2) // a slow server; two bounds would leave it opTimeout, which is more than soon, and one leaves half of that
			now := time.Now()
			gave.Store(&now)
			return true
		}
		<-returned // a server that does not answer
		return false
	})
	if asked != 2 {
		t.Fatalf("%d scripts were asked, want give.lua and release.lua", asked)
	}
	if took > soon {
		t.Errorf("Release took another %v after give.lua, want %v in all", took, opTimeout)
	}
	wantSilence(t, "Release", err)
}

func TestARenewalIsBoundedByItsContext(t *testing.T) {
	inTime(t, "Renew", soon, func() time.Duration {
		p := unheard(t)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		defer cancel()
		batch := []store.Renewal{{Ref: p.ref(time.Minute)}, {Ref: p.ref(time.Minute)}}
		p.Renew(ctx, batch)
		took := time.Since(start)
		if took < brief {
			t.Errorf("Renew with a timeout of %v took %v", brief, took)
		}
		for _, r := range batch {
			wantSilence(t, "Renew", r.Err)
		}
		return took
	})
}

// wantSilence wants the error of a question that nobody answered, or that was not
// put because nobody had answered before.
func wantSilence(t *testing.T, what string, err error) {
	t.Helper()
	e := (*store.Error)(nil)
	if !errors.As(err, &e) || !e.Ambiguous && e.Evidence != store.Silent || e.Permanent || e.Stale {
		t.Errorf("%s = %+v, want an error of silence", what, err)
	}
}

func TestARefusedConnectionIsKnownAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, redistest.NewClient(t, listener.Addr().String()), "kit")
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	inTime(t, "Acquire", soon, func() time.Duration {
		start := time.Now()
		_, err = p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
		return time.Since(start)
	})
	if e := store.AsError(err); e.Ambiguous || e.Permanent || e.Stale {
		t.Errorf("Acquire = %+v, want an error that says it was not sent", e)
	}
}
