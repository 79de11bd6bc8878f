package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// asyncs is about releases that nobody awaits: ReleaseAsync and Announce of store.Store. What is said there of a process that ends
// right behind a release cannot be seen from here.
var asyncs = []test{
	{"ReleaseAsyncTellsWhatReleaseReturns", asyncTellsWhatReleaseReturns},
	{"ReleaseAsyncTellsTheNextWaiter", asyncTellsTheNextWaiter},
	{"WhoAsksBehindReleaseAsyncFindsItDone", whoAsksBehindAsyncFindsItDone},
	{"WhoAsksBehindAReleaseWaitsUntilItIsOver", whoAsksBehindAReleaseWaits},
	{"WhoWaitsForAReleaseKeepsItsOwnTime", whoWaitsForAReleaseKeepsItsTime},
}

// A told is what ReleaseAsync has told.
type told struct {
	did    store.Released
	answer store.Answer
	err    error
}

// post gives back by ReleaseAsync, and returns what receives what that tells. Then the release is over.
func (p *process) post(g store.Give, soon bool) <-chan told {
	p.Helper()
	p.pass(time.Millisecond)
	c := make(chan told, 2) // one more than may come
	p.ReleaseAsync(g, soon, func(did store.Released, a store.Answer, err error) <-chan struct{} {
		c <- told{did, a, err}
		return nil
	})
	return c
}

// outcome returns what was told of g, which was posted. Without an answer in time it is not sure, and g is sent again.
func (p *process) outcome(g store.Give, c <-chan told) (got told, sure bool) {
	p.Helper()
	select {
	case got = <-c:
	case <-time.After(timeout):
		p.Fatalf("ReleaseAsync told nothing within %v", timeout)
	}
	sure = p.insist("ReleaseAsync", func() error {
		err := got.err
		if err != nil {
			got.did, got.answer, got.err = p.Release(p.Context(), g)
		}
		return err
	})
	return got, sure
}

func asyncTellsWhatReleaseReturns(w *world) {
	p, other := w.open(), w.open()
	var tolds []<-chan told
	for name, c := range map[string]struct {
		give func(r store.Ref, number int64) (g store.Give, next string) // next has the lock afterwards, or nobody
		want store.Released
	}{
		"of a holder":   {func(r store.Ref, _ int64) (store.Give, string) { return store.Give{Ref: r}, "" }, store.Freed},
		"of a stranger": {func(r store.Ref, _ int64) (store.Give, string) { return store.Give{Ref: p.ref(long)}, r.Token }, store.NotHeld},
		"that stays":    {func(r store.Ref, _ int64) (store.Give, string) { return store.Give{Ref: r, Stay: long / 2}, r.Token }, store.Freed},
		"of a lock that another waits for": {func(r store.Ref, _ int64) (store.Give, string) {
			return store.Give{Ref: r}, other.queue(long).Token
		}, store.HandedOver},
		"with an offer": {func(r store.Ref, _ int64) (store.Give, string) {
			next := store.Waiter{Ref: p.ref(long), Place: store.Place{Waited: time.Millisecond}}
			return store.Give{Ref: r, Next: next}, next.Token
		}, store.HandedOver},
		"with a record": {func(r store.Ref, _ int64) (store.Give, string) {
			return store.Give{Ref: r, Record: &store.Record{Fingerprint: "f", Data: "answer", Retain: long}}, ""
		}, store.Freed},
		"to a ticket": {func(r store.Ref, number int64) (store.Give, string) {
			t := store.Ticket{Token: p.NewTicket(""), Lasts: long, Issuer: number}
			return store.Give{Ref: r, Ticket: t}, t.Token
		}, store.HandedOn},
	} {
		for by, release := range map[string]func(g store.Give) (told, bool){
			"Release": func(g store.Give) (got told, sure bool) {
				sure = p.insist("Release", func() error {
					got.did, got.answer, got.err = p.Release(p.Context(), g)
					return got.err
				})
				return got, sure
			},
			"ReleaseAsync, for whom nobody waits": func(g store.Give) (told, bool) {
				c := p.post(g, false)
				tolds = append(tolds, c)
				return p.outcome(g, c)
			},
			"ReleaseAsync, for whom somebody waits": func(g store.Give) (told, bool) {
				c := p.post(g, true)
				tolds = append(tolds, c)
				return p.outcome(g, c)
			},
		} {
			r := p.ref(long)
			a := p.mustGet(r, store.Try)
			Note(&r, a)
			g, next := c.give(r, a.Number())
			got, sure := release(g)
			if offered := g.Next.Token != ""; sure && (got.did != c.want || got.answer.Granted != offered) {
				w.Errorf("%s %s: %v, the offer is taken: %v, want %v, %v", by, name, got.did, got.answer.Granted, c.want, offered)
			}
			w.mustHold(next)
			w.wipe()
		}
	}
	p.close()
	for _, c := range tolds {
		if len(c) > 0 {
			w.Error("ReleaseAsync has told twice what came of a release")
		}
	}
}

func asyncTellsTheNextWaiter(w *world) {
	e, other := w.open().listen(), w.open().listen()
	for _, waiter := range []*ear{e, other} {
		for _, soon := range []bool{false, true} {
			g := store.Give{Ref: e.take(long)}
			waits := waiter.queue(long)
			c := e.post(g, soon)
			waiter.hears(waits)
			e.outcome(g, c)
			waiter.release(waits, false, store.Freed)
		}
	}
	w.mustBeEmpty("the last release")
}

// A call is one of those that wait for the releases of their key which began before. It says whether it found the lock free, as far
// as it tells.
type call func(ctx context.Context, p *process) (free bool, err error)

// callsThatWait are all of them.
func (p *process) callsThatWait() map[string]call {
	calls := map[string]call{
		"Acquire": func(ctx context.Context, p *process) (bool, error) {
			a, err := p.Acquire(ctx, store.Request{Ref: p.ref(long)})
			return a.Granted, err
		},
		"Inspect": func(ctx context.Context, p *process) (bool, error) {
			info, err := p.Inspect(ctx, lock)
			return len(info.Holders) == 0, err
		},
		"ForceRelease": func(ctx context.Context, p *process) (bool, error) {
			return true, p.ForceRelease(ctx, lock, store.Intervention{})
		},
		"Resolve": func(ctx context.Context, p *process) (bool, error) {
			did, err := p.Resolve(ctx, lock, store.Record{Work: 7, Undone: true})
			return did == store.IsResolved, err
		},
	}
	if p.TakesSeveral() {
		calls["AcquireAll"] = func(ctx context.Context, p *process) (bool, error) {
			first := store.Ref{Key: "a lock that is free", Token: p.NewToken(""), TTL: long}
			fences, err := p.AcquireAll(ctx, []store.Ref{first, p.ref(long)}, time.Time{}, nil)
			return fences != nil, err
		}
	}
	return calls
}

// ownTime is what a call has that waits: less than a store's own bound, and much more than a few commands take.
const ownTime = 800 * time.Millisecond

// A found is what came of such a call.
type found struct {
	free bool
	err  error
}

// judge fails the test if a call has an error that is not for want of time, or, if it is sure that it came behind the release, did
// not find the lock free.
func (w *world) judge(what string, got found, sure bool) {
	w.Helper()
	switch e := store.AsError(got.err); {
	case got.err == nil && sure && !got.free:
		w.Errorf("%s: it found the lock as before the release", what)
	case got.err != nil && !e.Ambiguous && e.Evidence != store.Silent && !errors.Is(got.err, context.DeadlineExceeded):
		w.Errorf("%s: %v", what, got.err)
	}
}

// takeAtWork has p take the lock, and note that work begins, which Resolve can resolve once the lock is free.
func (p *process) takeAtWork() store.Ref {
	p.Helper()
	r := p.ref(long)
	Note(&r, p.mustGet(r, store.Try))
	p.begin(r, 7)
	return r
}

func whoAsksBehindAsyncFindsItDone(w *world) {
	p := w.open()
	for what, ask := range p.callsThatWait() {
		for _, soon := range []bool{false, true} {
			g := store.Give{Ref: p.takeAtWork()}
			c := p.post(g, soon)
			began := time.Now()
			free, err := ask(p.Context(), p)
			inTime := time.Since(began) < ownTime
			got, sure := p.outcome(g, c)
			if sure && inTime && got.did != store.Freed {
				w.Errorf("%s came before the release: that is told %v, want %v", what, got.did, store.Freed)
			}
			w.judge(what, found{free, err}, sure && inTime)
			w.wipe()
		}
	}
}

// releasesToCome are the ways in which a release of the lock is known to p and not over yet, with the steps by which it is.
var releasesToCome = map[string]func(p *process) (steps []func()){
	"announced": func(p *process) []func() { return []func(){p.Announce(lock)} },
	"announced twice": func(p *process) []func() {
		return []func(){p.Announce(lock), p.Announce(lock)}
	},
	"announced twice, and the second is over first": func(p *process) []func() {
		first, second := p.Announce(lock), p.Announce(lock)
		return []func(){second, first}
	},
	"posted, and to be tried again": func(p *process) []func() {
		over, called := make(chan struct{}), make(chan struct{})
		p.ReleaseAsync(store.Give{Ref: p.ref(long)}, true, func(store.Released, store.Answer, error) <-chan struct{} {
			close(called)
			return over
		})
		select {
		case <-called:
		case <-time.After(timeout):
			p.Fatalf("ReleaseAsync told nothing within %v", timeout)
		}
		return []func(){func() { close(over) }}
	},
}

func whoAsksBehindAReleaseWaits(w *world) {
	p := w.open()
	for how, toCome := range releasesToCome {
		for what, ask := range p.callsThatWait() {
			what += ", behind a release that is " + how
			r := p.takeAtWork()
			steps := toCome(p)
			began := time.Now()
			ctx, cancel := context.WithTimeout(p.Context(), ownTime)
			ended := p.start(ctx, ask)
			for i, step := range steps {
				p.mustWait(what, ended, began)
				if i == len(steps)-1 {
					w.mustHold(r.Token)
					p.release(r, false, store.Freed)
				}
				step()
			}
			inTime := time.Since(began) < ownTime/2
			w.judge(what, p.end(what, ended), inTime)
			cancel()
			w.wipe()
		}
	}
}

// start has a call begin, and returns what receives what comes of it.
func (p *process) start(ctx context.Context, ask call) <-chan found {
	ended := make(chan found, 1)
	go func() {
		free, err := ask(ctx, p)
		ended <- found{free, err}
	}()
	return ended
}

// mustWait fails the test if a call ends, unless its own time may be over, while p has other commands answered: such a call takes as
// long if it does not wait.
func (p *process) mustWait(what string, ended <-chan found, began time.Time) {
	p.Helper()
	for range 3 {
		other := store.Ref{Key: "another lock", Token: p.NewToken(""), TTL: long}
		p.mustGet(other, store.Try)
		p.release(other, false, store.Freed)
	}
	if len(ended) > 0 && time.Since(began) < ownTime {
		p.Fatalf("%s: it did not wait for the release", what)
	}
}

// end returns what came of a call, which must end.
func (p *process) end(what string, ended <-chan found) (got found) {
	p.Helper()
	select {
	case got = <-ended:
	case <-time.After(timeout):
		p.Fatalf("%s: it has not ended within %v", what, timeout)
	}
	return got
}

func whoWaitsForAReleaseKeepsItsTime(w *world) {
	p := w.open()
	over := p.Announce(lock)
	for what, ask := range p.callsThatWait() {
		p.mustKeepTime(what+", whose context ends", func(ctx context.Context, p *process) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, short)
			defer cancel()
			return ask(ctx, p)
		})
	}
	p.mustKeepTime("Acquire, whose time is over", func(ctx context.Context, p *process) (bool, error) {
		a, err := p.Acquire(ctx, store.Request{Ref: p.ref(long), Until: time.Now().Add(short)})
		return a.Granted, err
	})
	if p.TakesSeveral() {
		p.mustKeepTime("AcquireAll, whose time is over", func(ctx context.Context, p *process) (bool, error) {
			fences, err := p.AcquireAll(ctx, []store.Ref{p.ref(long)}, time.Now().Add(short), nil)
			return fences != nil, err
		})
	}
	over()
	w.wipe()
}

// mustKeepTime fails the test unless a call that has little time ends long before it would by the store's own bound. On a machine that
// stands still it may be late, but not each time.
func (p *process) mustKeepTime(what string, ask call) {
	p.Helper()
	for range 5 {
		began := time.Now()
		p.end(what, p.start(p.Context(), ask))
		if time.Since(began) < ownTime {
			return
		}
	}
	p.Errorf("%s: it did not end within %v, and has %v", what, ownTime, short)
}
