package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
)

// soon is when a call bounded by brief must be over. It is less than
// opTimeout, so that a call which ignores its bound is told from one that does
// not.
const (
	brief = 50 * time.Millisecond
	soon  = opTimeout - 100*time.Millisecond
)

var errGaveUp = errors.New("the caller gave up")

// A late is what Request.Late was told.
type late struct {
	answer store.Answer
	err    error
}

// proxied returns a Store behind a proxy, with an open connection and known
// scripts, and one beside the proxy.
func proxied(t *testing.T, server redistest.Backend) (*faultproxy.Proxy, *probe, *probe) {
	t.Helper()
	proxy := faultproxy.Start(t, server.Addr())
	ns := redistest.Prefix(t)
	behind := open(t, redistest.NewClient(t, proxy.Addr()), ns)
	beside := open(t, server.Client(t), ns)
	for _, p := range []*probe{behind, beside} {
		p.scripted = true // which is what the tests count
		r := p.ref(time.Minute)
		p.get(r, store.Try)
		p.renew(r, true)
		p.release(r, true, store.Freed)
	}
	proxy.ResetCommands()
	return proxy, behind, beside
}

func TestACancelledQuestionReturnsAtOnceAndItsAnswerComesLate(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		proxy, p, other := proxied(t, s)
		proxy.Stall(faultproxy.ToClient)
		ctx, cancel := context.WithCancelCause(t.Context())
		lates := make(chan late, 10)
		returned := make(chan error, 1)
		r := p.ref(time.Minute)
		go func() {
			_, err := p.Acquire(ctx, store.Request{Ref: r, Late: func(a store.Answer, err error) { lates <- late{a, err} }})
			returned <- err
		}()
		await.Until(t, "the command is under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
		cancel(errGaveUp)

		err := await.Receive(t, "Acquire to return", returned) // while the reply is held back
		if e := store.AsError(err); !errors.Is(err, errGaveUp) || !e.Pending || !e.Ambiguous || e.Permanent || e.Stale {
			t.Errorf("Acquire = %+v, want the context's cause, pending and ambiguous", e)
		}
		if len(lates) != 0 {
			t.Error("Late was called before there was an answer")
		}
		proxy.Heal()
		if got := await.Receive(t, "Late", lates); !got.answer.Granted || got.answer.Fence == 0 || got.err != nil {
			t.Errorf("Late was told %+v, want the grant", got)
		}
		other.refused(other.ref(time.Minute), store.Try) // for the lock is taken
		p.idle()
		if len(lates) != 0 {
			t.Error("Late was called twice")
		}
	})
}

// A question whose context has ended is not sent, and says why the context did.
func TestAQuestionWithAnEndedContextTellsTheCause(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Embedded(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGaveUp)
	for _, scripted := range []bool{true, false} {
		p.scripted = scripted
		r := p.ref(time.Minute)
		_, acquired := p.Acquire(ctx, store.Request{Ref: r})
		_, _, released := p.Release(ctx, store.Give{Ref: r})
		batch := []store.Renewal{{Ref: r}}
		p.Renew(ctx, batch)
		for what, err := range map[string]error{"Acquire": acquired, "Release": released, "Renew": batch[0].Err} {
			if e := store.AsError(err); !errors.Is(err, errGaveUp) || e.Pending || e.Ambiguous || e.Permanent {
				t.Errorf("%s (scripted %v) = %+v, want the context's cause, and that nothing was sent", what, scripted, e)
			}
		}
	}
	if sent := proxy.Commands(); len(sent) > 0 {
		t.Errorf("%v were sent, want nothing", sent)
	}
}

func TestACancelledQuestionWithoutAnAnswerEndsLateWithTheError(t *testing.T) {
	t.Parallel()
	proxy, p, _ := proxied(t, redistest.Shared(t))
	proxy.BlackHole(faultproxy.ToClient)
	ctx, cancel := context.WithCancel(t.Context())
	lates := make(chan late, 10)
	returned := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Join: store.Wait, Late: func(a store.Answer, err error) { lates <- late{a, err} }})
		returned <- err
	}()
	await.Until(t, "the question is under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
	cancel()
	if e := store.AsError(await.Receive(t, "Acquire to return", returned)); !e.Pending || !errors.Is(e, context.Canceled) {
		t.Errorf("Acquire = %+v, want context.Canceled, pending", e)
	}
	got := await.Receive(t, "Late", lates)
	if e := (*store.Error)(nil); !errors.As(got.err, &e) || !e.Ambiguous || e.Pending || e.Permanent || got.answer != (store.Answer{}) {
		t.Errorf("Late was told %+v, want an ambiguous error", got)
	}
	p.idle()
	if len(lates) != 0 {
		t.Error("Late was called twice")
	}
}

func TestACancelledQuestionNeedsNoLate(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Embedded(t))
	proxy.Stall(faultproxy.ToClient)
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute)})
		returned <- err
	}()
	await.Until(t, "the command is under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
	cancel()
	if e := store.AsError(await.Receive(t, "Acquire to return", returned)); !e.Pending {
		t.Errorf("Acquire = %+v, want it pending", e)
	}
	proxy.Heal()
	p.idle()
}

func TestLateIsNotCalledForAnAnswerInTime(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		p := open(t, s.Client(t), redistest.Prefix(t))
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Late: func(store.Answer, error) {
			t.Error("Late was called")
		}})
		if err != nil {
			t.Errorf("Acquire = %v, want nil", err)
		}
		cancel()
		p.idle()
	})
}

// A race between the answer and the end of ctx has one winner: the answer is
// returned, or goes to Late.
func TestAnAnswerIsReturnedOrComesLateButNeverBoth(t *testing.T) {
	p := open(t, redistest.Shared(t).Client(t), redistest.Prefix(t))
	returned, pending, silent := 0, 0, 0
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		g := make(chan struct{})
		go func() { <-g; cancel() }()
		lates := make(chan late, 2)
		r := p.ref(time.Minute)
		close(g)
		a, err := p.Acquire(ctx, store.Request{Ref: r, Late: func(a store.Answer, err error) { lates <- late{a, err} }})
		p.idle()
		want := 0
		switch e := store.AsError(err); {
		case err == nil && a.Granted:
			returned++
		case err != nil && e.Pending:
			pending++
			want = 1
		case err != nil && !e.Ambiguous: // it was never sent
		case err != nil && e.Evidence == store.Silent && silent < 10: // a busy machine
			silent++
		default:
			t.Fatalf("Acquire = %+v, %+v", a, e)
		}
		for range want {
			await.Receive(t, "Late", lates) // which is called after the question has ended
		}
		p.leave(r, true)
		if len(lates) != 0 {
			t.Fatalf("Late was called %d times more than %d, after %v", len(lates), want, err)
		}
		cancel()
	}
	t.Logf("%d answers were returned, %d came late", returned, pending)
	if returned+pending == 0 {
		t.Error("no question was answered")
	}
}

func TestACancelledReleaseReturnsAtOnceAndGoesOn(t *testing.T) {
	proxy, p, other := proxied(t, redistest.Embedded(t))
	r := p.take()
	proxy.ResetCommands()
	proxy.Stall(faultproxy.ToClient)
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, _, err := p.Release(ctx, store.Give{Ref: r})
		returned <- err
	}()
	await.Until(t, "the command is under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
	cancel()
	if e := store.AsError(await.Receive(t, "Release to return", returned)); !e.Pending || !e.Ambiguous || !errors.Is(e, context.Canceled) {
		t.Errorf("Release = %+v, want context.Canceled, pending and ambiguous", e)
	}
	other.get(other.ref(time.Minute), store.Try)
	proxy.Heal()
}

func TestCloseWaitsForQuestionsUnderWay(t *testing.T) {
	proxy := faultproxy.Start(t, redistest.Embedded(t).Addr())
	p, err := New(redistest.NewClient(t, proxy.Addr()), "kit", "test")
	if err != nil {
		t.Fatal(err)
	}
	p.scripted = true
	(&probe{t, p}).take()
	proxy.ResetCommands()
	proxy.Stall(faultproxy.ToClient)
	ctx, cancel := context.WithCancel(t.Context())
	returned, lates, closed := make(chan error, 1), make(chan late, 1), make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{
			Ref:  store.Ref{Key: "k", Token: p.NewToken(""), TTL: time.Minute},
			Late: func(a store.Answer, err error) { lates <- late{a, err} },
		})
		returned <- err
	}()
	await.Until(t, "the command is under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
	cancel()
	await.Receive(t, "Acquire to return", returned)
	go func() { closed <- p.Close() }()
	proxy.Heal()
	if err := await.Receive(t, "Close", closed); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if len(lates) != 1 { // Close came back behind it
		t.Error("Close did not wait for the question under way")
	}
}

// Many at once, of which some leave: each has the answer to its own question.
func TestEachCallHasItsOwnAnswer(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	p := open(t, client, redistest.Prefix(t))
	stood, began := stalls.During(t), time.Now()
	t.Cleanup(redistest.Pulse(stood, 20*time.Millisecond, redistest.Silences, client))
	var repeats atomic.Int64
	var all sync.WaitGroup
	for i := range 64 {
		leaves := i%8 == 7
		all.Go(func() {
			for turn := range 20 {
				r := store.Ref{Key: fmt.Sprint("k", i), Token: p.NewToken(""), TTL: time.Minute}
				ctx, cancel := context.WithCancel(t.Context())
				if leaves { // its question may be carried out at any time
					r.Key, r.TTL = fmt.Sprint("k", i, ":", turn), time.Second
					go cancel()
				}
				a, err := p.Acquire(ctx, store.Request{Ref: r, Join: store.Wait})
				if e := store.AsError(err); err != nil && !leaves && e.Evidence == store.Silent {
					repeats.Add(1)
					a = p.ask(r, store.Wait)
					err = nil
				}
				cancel()
				if err == nil && !a.Granted || err != nil && !leaves {
					t.Errorf("%s: turn %d: Acquire = %+v, %v", r.Key, turn, a, err)
				}
				did, again, err := p.givenBack(r, true)
				if again {
					repeats.Add(1)
				}
				if err != nil || did == store.HandedOver || did != store.Freed && !leaves && !again {
					t.Errorf("%s: turn %d: Release = %v, %v", r.Key, turn, did, err)
				}
			}
		})
	}
	all.Wait()
	if n, longest := repeats.Load(), stood.Longest(began, time.Now()); n > 0 && longest < opTimeout/2 {
		t.Errorf("%d questions were not answered, though neither Redis nor this machine stood still for more than %v", n, longest)
	}
}

// A host that is away does not refuse connections, it is silent.
func TestAConnectionThatIsNotMadeIsBounded(t *testing.T) {
	options := &redis.Options{
		Addr: "127.0.0.1:1",
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	p := open(t, client, "kit")
	for what, ask := range map[string]func() error{
		"Acquire": func() error {
			_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute), Until: time.Now().Add(brief)})
			return err
		},
		"Release": func() error {
			_, _, err := p.Release(t.Context(), store.Give{Ref: p.ref(time.Minute), Until: time.Now().Add(brief)})
			return err
		},
	} {
		inTime(t, what, soon, func() time.Duration {
			start := time.Now()
			if err := ask(); err == nil {
				t.Errorf("%s of a silent host = nil", what)
			}
			return time.Since(start)
		})
	}
}
