package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A process is one Store, as one process of a service has it.
type process struct {
	*world
	store.Store
	close func()
}

// A settler is a Store that answers before all of its nodes have, as a quorum does, and
// can tell when they have, and when all is given back that was taken in vain.
type settler interface {
	Settle()
	GiveBack()
}

// open starts one more process. It does not listen yet.
func (w *world) open() *process {
	w.Helper()
	s := w.keyspace.Open(w)
	p := &process{world: w, Store: s}
	p.close = sync.OnceFunc(func() {
		if err := s.Close(); err != nil {
			w.Errorf("Close = %v, want nil", err)
		}
	})
	w.Cleanup(p.close)
	return p
}

// ref returns a new token's Ref to lock.
func (p *process) ref(ttl time.Duration) store.Ref {
	return store.Ref{Key: lock, Token: p.NewToken(""), TTL: ttl}
}

// as returns a new token's Ref to lock, of a kind.
func (p *process) as(kind store.Kind, ttl time.Duration) store.Ref {
	r := p.ref(ttl)
	r.Kind = kind
	return r
}

// ask puts one question, which must be answered.
func (p *process) ask(r store.Ref, join store.Join) store.Answer {
	p.Helper()
	p.pass(time.Millisecond)
	var a store.Answer
	p.insist("Acquire("+joins[join]+")", func() (err error) {
		a, err = p.Acquire(p.Context(), store.Request{Ref: r, Join: join, Until: soon()})
		if s, ok := p.Store.(settler); ok && err != nil {
			s.Settle()
			s.GiveBack() // or what is to give back this attempt would take the next one's votes, whose token is the same
		}
		return err
	})
	return a
}

// insist asks until there is an answer, and reports whether the first was one.
// On a machine that stands still for a second the answer may come too late,
// and asking twice is what a store promises to bear. It returns when all nodes have
// answered, so that whoever looks at them next finds the same at each.
func (p *process) insist(what string, question func() error) (atOnce bool) {
	p.Helper()
	deadline := time.Now().Add(timeout)
	atOnce = true
	for err := question(); err != nil; err = question() {
		if e := store.AsError(err); !e.Ambiguous && e.Evidence != store.Silent || e.Stale || time.Now().After(deadline) {
			p.Fatalf("%s: %v", what, err)
		}
		atOnce = false
	}
	if s, ok := p.Store.(settler); ok {
		s.Settle()
	}
	p.mustExpire(what)
	return atOnce
}

// tooLate reports whether a question has failed since nodes answered it too late, which
// leaves a quorum without a majority, on a busy machine.
func (w *world) tooLate(err error) bool {
	return err != nil && len(w.keyspace.Nodes) > 1 && store.AsError(err).Evidence == store.Silent
}

// take asks for a lock that must be granted.
func (p *process) take(ttl time.Duration) store.Ref {
	p.Helper()
	r := p.ref(ttl)
	p.mustGet(r, store.Try)
	return r
}

// takeAs is take for one of a kind.
func (p *process) takeAs(kind store.Kind, ttl time.Duration) store.Ref {
	p.Helper()
	r := p.as(kind, ttl)
	p.mustGet(r, store.Try)
	return r
}

// mustGet asks and wants a grant.
func (p *process) mustGet(r store.Ref, join store.Join) store.Answer {
	p.Helper()
	a := p.ask(r, join)
	if !a.Granted {
		p.Fatalf("Acquire(%s) was not granted", joins[join])
	}
	return a
}

// mustNotGet asks and wants no grant.
func (p *process) mustNotGet(r store.Ref, join store.Join) store.Answer {
	p.Helper()
	a := p.ask(r, join)
	if a.Granted {
		p.Fatalf("Acquire(%s) was granted", joins[join])
	}
	return a
}

// queue puts a new token in the queue of a lock that somebody holds.
func (p *process) queue(ttl time.Duration) store.Ref {
	p.Helper()
	r := p.ref(ttl)
	p.mustNotGet(r, store.Wait)
	return r
}

// queueAs is queue for one of a kind.
func (p *process) queueAs(kind store.Kind) store.Ref {
	p.Helper()
	r := p.as(kind, long)
	p.mustNotGet(r, store.Wait)
	return r
}

// excluded wants no grant of a kind, however it is asked for.
func (p *process) excluded(kind store.Kind) {
	p.Helper()
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		r := p.as(kind, long)
		p.mustNotGet(r, join)
		if join == store.Wait {
			p.release(r, true, store.NotHeld)
		}
	}
}

// Note has r tell what the answer said that granted its token.
func Note(r *store.Ref, a store.Answer) { r.Fence, r.Estimate = a.Fence, a.Estimate }

// soon is until when one question may take.
func soon() time.Time { return time.Now().Add(timeout) }

// release wants a definite outcome; of a removal none is known.
func (p *process) release(r store.Ref, leave bool, want store.Released) {
	p.Helper()
	if got, sure := p.leave(r, leave); sure && !leave && got != want {
		p.Errorf("Release(leave %v) = %v, want %v", leave, got, want)
	}
}

// leave reports what a release did. Without the first answer it is not sure.
func (p *process) leave(r store.Ref, leave bool) (got store.Released, sure bool) {
	p.Helper()
	p.pass(time.Millisecond)
	sure = p.insist(fmt.Sprintf("Release(leave %v)", leave), func() (err error) {
		if leave {
			removal := []store.Removal{{Ref: r}}
			p.Remove(p.Context(), removal)
			return removal[0].Err
		}
		got, _, err = p.Release(p.Context(), store.Give{Ref: r})
		return err
	})
	return got, sure
}

// releaseStaying wants a definite outcome.
func (p *process) releaseStaying(r store.Ref, stay time.Duration, want store.Released) {
	p.Helper()
	p.pass(time.Millisecond)
	var got store.Released
	sure := p.insist("Release that stays", func() (err error) {
		got, _, err = p.Release(p.Context(), store.Give{Ref: r, Stay: stay})
		return err
	})
	if got != want && (sure || stay > timeout) { // asked again it says the same, for as long as the lock stays taken
		p.Errorf("Release that stays(%v) = %v, want %v", stay, got, want)
	}
}

// renew renews one key and reports whether it is held.
func (p *process) renew(r store.Ref) bool {
	p.Helper()
	batch := []store.Renewal{{Ref: r}}
	p.pass(time.Millisecond)
	p.insist("Renew", func() error {
		p.Renew(p.Context(), batch)
		return batch[0].Err
	})
	return batch[0].Held
}

func (p *process) renewAll(batch []store.Renewal) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), timeout)
	defer cancel()
	p.Renew(ctx, batch)
	p.mustExpire("Renew")
}

// An ear is a Listener that a test reads.
type ear struct {
	*process
	listening chan struct{}
	grants    chan store.News
	stop      func() // ends Listen and waits for its end
}

// Listening implements store.Listener.
func (e *ear) Listening() { e.listening <- struct{}{} }

// Granted implements store.Listener.
func (e *ear) Granted(g store.News) { e.grants <- g }

// OthersWait implements store.Listener.
func (e *ear) OthersWait(string, string, int64) {}

// Revoking implements store.Listener.
func (e *ear) Revoking(string, string, store.Intervention) {}

// Revoked implements store.Listener.
func (e *ear) Revoked(string, string) {}

// listen has p listen until the test ends, and returns when it does.
func (p *process) listen() *ear {
	p.Helper()
	e := &ear{
		process:   p,
		listening: make(chan struct{}, 100), // more than any test has subscriptions
		grants:    make(chan store.News, 1000),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Listen(ctx, e) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	p.Cleanup(e.stop)
	select {
	case <-e.listening:
	case err := <-ended:
		p.Fatalf("Listen = %v before it listened", err)
	case <-time.After(timeout):
		p.Fatalf("Listen did not listen within %v", timeout)
	}
	return e
}

// deafen ends Listen, and returns when the servers know that: a connection's
// end takes its time to arrive.
func (e *ear) deafen() {
	e.Helper()
	before := e.channels()
	e.stop()
	e.eventually("the servers know that nobody listens", func() bool { return e.channels() < before })
}

// hears returns the next grant, which must be r's.
func (e *ear) hears(r store.Ref) store.News {
	e.Helper()
	select {
	case g := <-e.grants:
		if g.Ref.Token != r.Token {
			e.Fatalf("heard of a grant to %s, want %s", g.Ref.Token, r.Token)
		}
		return g
	case <-time.After(timeout):
		e.Fatalf("heard nothing of a grant to %s within %v", r.Token, timeout)
	}
	panic("unreachable")
}

// heardNothing fails the test if a grant was told. Messages arrive in order,
// so it has one told about another lock, which must be the first to be heard.
func (e *ear) heardNothing() {
	e.Helper()
	holder, waiter := e.ref(long), e.ref(long)
	holder.Key, waiter.Key = "a marker", "a marker"
	e.mustGet(holder, store.Try)
	e.mustNotGet(waiter, store.Wait)
	e.release(holder, false, store.HandedOver)
	e.hears(waiter)
	e.release(waiter, false, store.Freed)
}
