package waitqueue

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// This file is about how a key goes from one who has it to a waiter: PassOn, within the
// process and without the store's knowing; Name and Named, by a command that gives the key
// back; Granted, by a message of the store.

// PassOn hands key from holder, who gives it back, to the first waiter of the process,
// without the store's knowing. It does so only if that waiter rests, so that nobody else
// of the process is in front of it, if it wants the key for the grant's TTL, and if it came
// before all others of whom Contended has told. The grant has the token by which the store
// knows the holder. The holder stays the one that passes the key on. The waiter is out of
// its queue then.
func (s *Set) PassOn(key string, holder any, g Grant) bool {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil || q.holder != holder || q.waiters.Len() == 0 {
		return false
	}
	w := at(q.waiters.Front())
	if w.state != Resting || w.ref.TTL != g.TTL || w.ref.Least != 0 || !w.before(g.Token) {
		return false
	}
	q.remove(w, served)
	s.length.Add(-1)
	w.queue, w.place = nil, nil
	w.Grants <- g // there is room: one that rests has no other grant
	return true
}

// Return has a waiter wait on to which a key was handed in vain. It was the first, so it is
// the first again, and asks the store.
func (s *Set) Return(w *Waiter) {
	p := w.shard
	p.mu.Lock()
	defer p.mu.Unlock()
	s.length.Add(1)
	q := p.open(w.ref.Key)
	q.addFirst(w)
	p.know(w)
}

// Contended notes that somebody of another process, who came at came on the store's clock,
// waits for the key that token has.
func (s *Set) Contended(key, token string, came int64) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil || q.holder != nil && q.contended.token != token {
		return // it is late: another token of this process has the key by now
	}
	q.contend(token, came)
}

// Name names the waiter to which holder passes key on, and must be called when holder is
// about to give the key back by a command. It is not ok if there is none, or if the store
// is sure to know of it. A waiter that asks at this moment may be named to the store
// twice, at one place. If it is ok, Named must follow; a second call for the same holder names
// nobody. waits says that somebody waits.
func (s *Set) Name(key string, holder any) (to store.Ref, place store.Place, ok, waits bool) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil {
		return store.Ref{}, store.Place{}, false, false
	}
	waits = q.waiters.Len() > 0
	if q.holder != holder {
		return store.Ref{}, store.Place{}, false, waits
	}
	q.holder, q.seen = nil, nil
	if q.alone == nil || at(q.alone).state == Queued || at(q.alone).state == Served {
		p.tidy(q)
		return store.Ref{}, store.Place{}, false, waits
	}
	w := at(q.alone)
	p.name(w)
	w.on(offered)
	return w.ref, w.position(), true, true
}

// An Outcome is what a command that gives a key back brought the waiter that it named.
type Outcome uint8

const (
	// WasQueued: the waiter has a place in the store's queue.
	WasQueued Outcome = iota
	// WasGranted: the waiter has the key.
	WasGranted
	// WasNotHeld: the key was not held by the one who gave it back, so the waiter has no place by that.
	WasNotHeld
	// WasUnanswered: there was no answer, so the waiter may have a place, or the key, or neither.
	WasUnanswered
)

// A Naming is what came of a command that gave a key back and named a waiter.
type Naming struct {
	To      store.Ref // the waiter that was named
	Outcome Outcome
	Sent    time.Time // when the command was
	Clock   int64     // the store's, µs
	Fence   int64     // of the grant
	Session uint64    // the caller's, for the Grant

	Contended int64 // when the first of those came who wait on, on the store's clock; 0: nobody
}

// Named notes what came of a command for which Name has named a waiter. It reports
// whether that waits no more.
func (s *Set) Named(a Naming) (gone bool) {
	p := s.of(a.To.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.tokens[a.To.Token]
	if w == nil {
		return true
	}
	if a.Outcome == WasUnanswered {
		w.on(unanswered)
		w.nudge(true) // whatever came of it
		return false
	}
	// What the queue's last command said, and when, stays: this answer says nothing of
	// those that stand in the store's queue.
	w.queue.noteClock(Clock{a.Sent, a.Clock})
	switch a.Outcome {
	case WasGranted:
		w.serve(Grant{Token: a.To.Token, Fence: a.Fence, Clock: a.Clock, Since: a.Sent, TTL: a.To.TTL, Session: a.Session, Contended: a.Contended})
	case WasNotHeld:
		w.on(declined)
		w.nudge(true)
	default:
		w.on(placed)
		w.nudge(false)
	}
	return false
}

// Granted delivers the news that a message has brought. It reports false when nobody waits
// for it.
func (s *Set) Granted(g store.Grant) bool {
	p := s.of(g.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.tokens[g.Token]
	if w == nil {
		return false
	}
	since, ok := w.queue.clock.Since(g.Server)
	if !ok {
		since = time.Time{}
	}
	w.serve(Grant{Token: g.Token, Fence: g.Fence, Clock: g.Server, Since: since, TTL: g.TTL, Published: true, Contended: g.Contended})
	return true
}

// ForgetHolder notes that holder does not pass key on any more, though it may have it still.
func (s *Set) ForgetHolder(key string, holder any) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[key]; q != nil && q.holder == holder {
		q.holder = nil
		p.tidy(q)
	}
}
