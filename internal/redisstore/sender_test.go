package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/faultproxy"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/store"
)

// A fakeCarrier carries calls when it is told to.
type fakeCarrier struct {
	sender  *sender
	batches chan []*call
	answers chan any // one for each batch
}

func newFakeCarrier(usual, max int) *fakeCarrier {
	f := &fakeCarrier{batches: make(chan []*call, 100), answers: make(chan any)}
	f.sender = newSender(usual, usual, max, func(_ *line, batch []*call) {
		f.batches <- batch
		answer := <-f.answers
		var outcomes []outcome
		for _, c := range batch {
			outcomes = append(outcomes, outcome{call: c, value: answer})
		}
		f.sender.end(outcomes...)
	})
	return f
}

// ask has one more call done, and returns where its answer or error comes.
func (f *fakeCarrier) ask(ctx context.Context, d time.Duration) <-chan any {
	outcome := make(chan any, 1)
	go func() {
		now := time.Now()
		value, _, err := f.sender.do(ctx, &call{begun: now, deadline: now.Add(d)})
		if err != nil {
			value = err
		}
		outcome <- value
	}()
	return outcome
}

// wait waits until n calls wait for a lane.
func (f *fakeCarrier) wait(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " calls wait"), func() bool {
		f.sender.mu.Lock()
		defer f.sender.mu.Unlock()
		return f.sender.waiting.n == n
	})
}

func TestCallsGoTogetherWhenAllLanesAreBusy(t *testing.T) {
	f := newFakeCarrier(2, 2)
	var first, later []<-chan any
	for range 2 {
		first = append(first, f.ask(t.Context(), time.Minute))
		if got := await(t, "a call", f.batches); len(got) != 1 {
			t.Errorf("%d calls together, want 1: lanes are free", len(got))
		}
	}
	for i := range 5 {
		later = append(later, f.ask(t.Context(), time.Minute))
		f.wait(t, i+1)
	}
	f.answers <- "first"
	if got := await(t, "a batch", f.batches); len(got) != 5 {
		t.Errorf("%d calls together, want 5", len(got))
	}
	f.answers <- "first"
	f.answers <- "later"
	for _, outcome := range first {
		if got := await(t, "an answer", outcome); got != "first" {
			t.Errorf("answer %v, want the first", got)
		}
	}
	for _, outcome := range later {
		if got := await(t, "an answer", outcome); got != "later" {
			t.Errorf("answer %v, want the batch's", got)
		}
	}
	f.sender.wait()
}

// A connection that hangs holds up those behind it for a moment only.
func TestCallsDoNotWaitForLongForALane(t *testing.T) {
	f := newFakeCarrier(1, 2)
	hangs := f.ask(t.Context(), time.Minute)
	await(t, "the first call", f.batches)
	next := f.ask(t.Context(), time.Minute)
	await(t, "the next call", f.batches) // though the first is under way
	f.answers <- "one"
	f.answers <- "two"
	for _, outcome := range []<-chan any{hangs, next} {
		await(t, "an answer", outcome)
	}
	f.sender.wait()
}

func TestACallThatWaitsForALaneIsBounded(t *testing.T) {
	f := newFakeCarrier(1, 1)
	hangs := f.ask(t.Context(), time.Minute)
	await(t, "the first call", f.batches)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled := f.ask(ctx, time.Minute)
	f.wait(t, 1)
	cancel(errGaveUp)
	err, _ := await(t, "the cancelled call", cancelled).(error)
	if e := store.AsError(err); !errors.Is(err, errGaveUp) || e.Ambiguous || e.Pending {
		t.Errorf("cancelled: %+v, want its cause, never sent", e)
	}
	err, _ = await(t, "the call without time", f.ask(t.Context(), brief)).(error)
	if e := store.AsError(err); !errors.Is(err, errBusy) || e.Ambiguous || e.Pending {
		t.Errorf("without time: %+v, want errBusy, never sent", e)
	}
	f.wait(t, 0)
	f.answers <- "at last"
	await(t, "the first answer", hangs)
	f.sender.wait()
}

// Thousands of callers may give up at once, in any order. What that costs one of
// them does not depend on how many came before. The calls are made by hand, so that
// nothing else is measured.
func TestWhoeverCameLastLeavesAsQuicklyAsTheFirst(t *testing.T) {
	const callers = 20_000
	calls := make([]*call, callers)
	cost := func(order iter.Seq2[int, *call]) time.Duration {
		s := newSender(1, 1, 1, nil)
		for i := range calls {
			calls[i] = &call{done: make(chan struct{}, 1)}
			s.waiting.add(calls[i])
		}
		began := time.Now()
		for _, c := range order {
			if s.leave(c) {
				t.Error("a call that was not sent is waited for")
			}
		}
		return time.Since(began)
	}
	first, last := time.Hour, time.Hour
	for range 5 { // the machine may be busy
		first = min(first, cost(slices.All(calls)))
		last = min(last, cost(slices.Backward(calls)))
	}
	t.Logf("%d left within %v, those who came last first within %v", callers, first, last)
	if last > 20*first { // a search for each: several hundred times
		t.Errorf("where those who came last left first, it took %d times as long", last/first)
	}
}

func TestACallThatIsSentInABatchIsBounded(t *testing.T) {
	f := newFakeCarrier(1, 1)
	first := f.ask(t.Context(), time.Minute)
	await(t, "the first call", f.batches)
	slow := f.ask(t.Context(), brief)
	f.wait(t, 1)
	f.answers <- "first"
	await(t, "the second", f.batches)
	err, _ := await(t, "the call without time", slow).(error)
	if e := store.AsError(err); !errors.Is(err, errBusy) || !e.Ambiguous || e.Pending {
		t.Errorf("without time: %+v, want errBusy, ambiguous", e)
	}
	f.answers <- "too late"
	await(t, "the first answer", first)
	f.sender.wait()
}

// Many at once, of which some leave: each has the answer to its own question.
func TestEachCallHasItsOwnAnswer(t *testing.T) {
	p := open(t, redistest.Shared(t).Client(t), redistest.Prefix(t))
	var all sync.WaitGroup
	for i := range 64 {
		leaves := i%8 == 7
		all.Go(func() {
			for turn := range 20 {
				r := store.Ref{Key: fmt.Sprint("k", i), Token: p.NewToken(), TTL: time.Minute}
				ctx, cancel := context.WithCancel(t.Context())
				if leaves { // its question may be carried out at any time
					r.Key, r.TTL = fmt.Sprint("k", i, ":", turn), time.Second
					go cancel()
				}
				a, err := p.Acquire(ctx, store.Request{Ref: r, Join: store.Wait})
				cancel()
				if err == nil && !a.Granted || err != nil && !leaves {
					t.Errorf("%s: turn %d: Acquire = %+v, %v", r.Key, turn, a, err)
				}
				did, err := p.Release(t.Context(), r, true)
				if err != nil || did == store.HandedOver || did != store.Freed && !leaves {
					t.Errorf("%s: turn %d: Release = %v, %v", r.Key, turn, did, err)
				}
			}
		})
	}
	all.Wait()
}

// A line is cut when its caller wants to leave and no answer comes.
func TestACallerLeavesALine(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Shared(t))
	eventually(t, "answers are quick", func() bool {
		p.release(p.take(), false, store.Freed)
		return p.sender.quick.Load()
	})
	proxy.ResetCommands()
	proxy.BlackHole(faultproxy.ToClient)
	ctx, cancel := context.WithCancelCause(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Late: func(store.Answer, error) {
			t.Error("Late was called")
		}})
		returned <- err
	}()
	eventually(t, "the question is under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
	start := time.Now()
	cancel(errGaveUp)
	err := await(t, "Acquire to return", returned)
	if took := time.Since(start); took > soon {
		t.Errorf("Acquire returned %v after its context ended", took)
	}
	if e := store.AsError(err); !errors.Is(err, errGaveUp) || !e.Ambiguous || e.Pending || e.Permanent {
		t.Errorf("Acquire = %+v, want the context's cause, ambiguous", e)
	}
}

// A cut that comes late does no harm to the next call.
func TestACutComesTooLateForTheNextCall(t *testing.T) {
	p := open(t, redistest.Shared(t).Client(t), redistest.Prefix(t))
	l := p.sender.lines[0]
	turn, _ := l.begin()
	l.end(true)
	next, _ := l.begin()
	defer l.end(true)
	if err := l.client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	l.cut(turn)
	if err := l.wire.SetDeadline(time.Time{}); err != nil {
		t.Errorf("a late cut ended the connection: %v", err)
	}
	l.cut(next)
	if err := l.wire.SetDeadline(time.Time{}); err == nil {
		t.Error("a cut did not end the connection")
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
			_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute), Timeout: brief})
			return err
		},
		"Release": func() error {
			_, err := p.Release(store.Until(t.Context(), time.Now().Add(brief)), p.ref(time.Minute), true)
			return err
		},
	} {
		start := time.Now()
		if err := ask(); err == nil {
			t.Errorf("%s of a silent host = nil", what)
		}
		if took := time.Since(start); took > soon {
			t.Errorf("%s with a timeout of %v took %v", what, brief, took)
		}
	}
}
