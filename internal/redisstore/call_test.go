package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/faultproxy"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/store"
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

// A gate is a hook that holds back the replies of commands.
type gate struct {
	sent chan string   // the name of each command, when its reply has come
	open chan struct{} // closed, the replies pass
}

// shut puts a gate on p's connections.
func (p *probe) shut() *gate {
	p.withoutLines()
	p.client.Ping(context.Background()) // connects
	g := &gate{make(chan string, 100), make(chan struct{})}
	p.client.AddHook(g)
	return g
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		g.sent <- cmd.Name()
		<-g.open
		return err
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
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
		r := p.ref(time.Minute)
		p.get(r, store.Try)
		p.renew(r, true)
		p.release(r, true, store.Freed)
	}
	if err := beside.client.ScriptLoad(t.Context(), manyScript.text).Err(); err != nil {
		t.Fatal(err)
	}
	proxy.ResetCommands()
	return proxy, behind, beside
}

func TestACancelledQuestionReturnsAtOnceAndItsAnswerComesLate(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		p.release(p.take(), false, store.Freed) // the scripts are known from now on
		g := p.shut()
		ctx, cancel := context.WithCancelCause(t.Context())
		lates := make(chan late, 10)
		returned := make(chan error, 1)
		r := p.ref(time.Minute)
		go func() {
			_, err := p.Acquire(ctx, store.Request{Ref: r, Late: func(a store.Answer, err error) { lates <- late{a, err} }})
			returned <- err
		}()
		await(t, "the command", g.sent)
		cancel(errGaveUp)

		err := await(t, "Acquire to return", returned) // while the gate is shut
		if e := store.AsError(err); !errors.Is(err, errGaveUp) || !e.Pending || !e.Ambiguous || e.Permanent || e.Stale {
			t.Errorf("Acquire = %+v, want the context's cause, pending and ambiguous", e)
		}
		if len(lates) != 0 {
			t.Error("Late was called before there was an answer")
		}
		close(g.open)
		if got := await(t, "Late", lates); !got.answer.Granted || got.answer.Fence == 0 || got.err != nil {
			t.Errorf("Late was told %+v, want the grant", got)
		}
		other.refused(other.ref(time.Minute), store.Try) // for the lock is taken
		p.sender.wait()
		if len(lates) != 0 {
			t.Error("Late was called twice")
		}
	})
}

func TestACancelledQuestionWithoutAnAnswerEndsLateWithTheError(t *testing.T) {
	t.Parallel()
	proxy, p, _ := proxied(t, redistest.Shared(t))
	p.withoutLines()
	p.release(p.take(), false, store.Freed)
	proxy.ResetCommands()
	proxy.BlackHole(faultproxy.ToClient)
	ctx, cancel := context.WithCancel(t.Context())
	lates := make(chan late, 10)
	returned := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Join: store.Wait, Late: func(a store.Answer, err error) { lates <- late{a, err} }})
		returned <- err
	}()
	eventually(t, "the question is under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
	cancel()
	if e := store.AsError(await(t, "Acquire to return", returned)); !e.Pending || !errors.Is(e, context.Canceled) {
		t.Errorf("Acquire = %+v, want context.Canceled, pending", e)
	}
	got := await(t, "Late", lates)
	if e := (*store.Error)(nil); !errors.As(got.err, &e) || !e.Ambiguous || e.Pending || e.Permanent || got.answer != (store.Answer{}) {
		t.Errorf("Late was told %+v, want an ambiguous error", got)
	}
	p.sender.wait()
	if len(lates) != 0 {
		t.Error("Late was called twice")
	}
}

func TestACancelledQuestionNeedsNoLate(t *testing.T) {
	p := open(t, redistest.Embedded(t).Client(t), "kit")
	g := p.shut()
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute)})
		returned <- err
	}()
	await(t, "the command", g.sent)
	cancel()
	if e := store.AsError(await(t, "Acquire to return", returned)); !e.Pending {
		t.Errorf("Acquire = %+v, want it pending", e)
	}
	close(g.open)
	p.sender.wait()
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
		p.sender.wait()
	})
}

// A race between the answer and the end of ctx has one winner: the answer is
// returned, or goes to Late.
func TestAnAnswerIsReturnedOrComesLateButNeverBoth(t *testing.T) {
	p := open(t, redistest.Shared(t).Client(t), redistest.Prefix(t))
	p.withoutLines() // a line may be cut, which has an outcome of its own
	returned, pending := 0, 0
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		g := make(chan struct{})
		go func() { <-g; cancel() }()
		lates := make(chan late, 2)
		r := p.ref(time.Minute)
		close(g)
		a, err := p.Acquire(ctx, store.Request{Ref: r, Late: func(a store.Answer, err error) { lates <- late{a, err} }})
		p.sender.wait()
		want := 0
		switch e := store.AsError(err); {
		case err == nil && a.Granted:
			returned++
		case err != nil && e.Pending:
			pending++
			want = 1
		case err != nil && !e.Ambiguous: // it was never sent
		default:
			t.Fatalf("Acquire = %+v, %+v", a, e)
		}
		if len(lates) != want {
			t.Fatalf("Late was called %d times, want %d, after %v", len(lates), want, err)
		}
		p.leave(r, true)
		cancel()
	}
	t.Logf("%d answers were returned, %d came late", returned, pending)
}

func TestACancelledReleaseReturnsAtOnceAndGoesOn(t *testing.T) {
	s := redistest.Embedded(t)
	p, other := open(t, s.Client(t), "kit"), open(t, s.Client(t), "kit")
	p.release(p.take(), false, store.Freed) // the scripts are known from now on
	r := p.take()
	g := p.shut()
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := p.Release(ctx, r, false)
		returned <- err
	}()
	await(t, "the command", g.sent)
	cancel()
	if e := store.AsError(await(t, "Release to return", returned)); !e.Pending || !e.Ambiguous || !errors.Is(e, context.Canceled) {
		t.Errorf("Release = %+v, want context.Canceled, pending and ambiguous", e)
	}
	other.get(other.ref(time.Minute), store.Try)
	close(g.open)
}

func TestCloseWaitsForQuestionsUnderWay(t *testing.T) {
	s := redistest.Embedded(t)
	p, err := New(s.Client(t), "kit")
	if err != nil {
		t.Fatal(err)
	}
	g := (&probe{t, p}).shut()
	ctx, cancel := context.WithCancel(t.Context())
	returned, lates, closed := make(chan error, 1), make(chan late, 1), make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{
			Ref:  store.Ref{Key: "k", Token: p.NewToken(), TTL: time.Minute},
			Late: func(a store.Answer, err error) { lates <- late{a, err} },
		})
		returned <- err
	}()
	await(t, "the command", g.sent)
	cancel()
	await(t, "Acquire to return", returned)
	go func() { closed <- p.Close() }()
	close(g.open)
	if err := await(t, "Close", closed); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if len(lates) != 1 { // Close came back behind it
		t.Error("Close did not wait for the question under way")
	}
}
