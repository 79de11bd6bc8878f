package waitqueue

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// This file is about how a lock goes from one who has it to a waiter of this Locker:
//
//   - PassOn, to pass on within the Locker: no command is sent, and the store need not know.
//   - Offer and OfferEnded, before and after a command that gives the lock back and tells the
//     store who is next; AskLast and OfferEnded around one by which a waiter gives up, and that
//     tells the store of the next one.
//   - Granted, by a message, or by the reply to a release of this Locker: a script has given the lock to the waiter.

// PassOn passes the lock on from holder, who has no more use for it, to the first waiter of the
// Locker, and reports whether it did. It does so only if that waiter rests, so that the store
// does not know it; if it wants the lock for the grant's TTL, and no MinHold; and if it came
// before all others of whom Take or OthersWait has told. The grant has the token by which the store
// knows the holder, who stands for the lock as before. The waiter is out of its queue then.
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

// Return has a waiter wait on that PassOn gave a lock of no use, such as one that was lost
// meanwhile. It was the first, so it is the first again, and asks the store.
func (s *Set) Return(w *Waiter) {
	p := w.shard
	p.mu.Lock()
	defer p.mu.Unlock()
	s.length.Add(1)
	q := p.open(w.ref.Key)
	q.addFirst(w)
	p.startAsking(w)
}

// OthersWait notes a message of the store: somebody of another Locker, who came at came on
// the store's clock, waits for the lock that token has.
func (s *Set) OthersWait(key, token string, came int64) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil || q.holder != nil && q.others.token != token {
		return // the message is late: another token of this Locker has the lock by now
	}
	q.contend(token, came)
}

// Offer returns the waiter to which holder offers the lock, with the place that the store is to
// give to it. It must be called when holder is about to give the lock back by a
// command, which tells both to the store. It is not ok if nobody waits for the lock alone, or
// if the store is sure to know the first who does. The store may hear twice of a waiter that
// asks at this moment, and gives it one place. If it is ok, OfferEnded must follow. Either
// way holder is forgotten, so a second call offers the lock to nobody. waits says that somebody
// waits.
func (s *Set) Offer(key string, holder any) (to store.Waiter, ok, waits bool) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil {
		return store.Waiter{}, false, false
	}
	waits = q.waiters.Len() > 0
	if q.holder != holder && (q.holder != nil || q.overstays != holder) {
		return store.Waiter{}, false, waits
	}
	q.holder, q.overstays, q.seen = nil, nil, nil
	if q.firstAlone == nil || at(q.firstAlone).state == Queued || at(q.firstAlone).state == Served {
		p.tidy(q)
		return store.Waiter{}, false, waits
	}
	return at(q.firstAlone).offer(), true, true
}

// AskLast is Ask for the command by which w leaves the store's queue, unless it gets the lock. Where w stands there for those
// behind it, the first of them is to have its own place by the same command, so that nobody who came later is served meanwhile: next
// has a token then, and OfferEnded must follow, too.
func (s *Set) AskLast(w *Waiter) (token string, place store.Place, next store.Waiter, ok bool) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if token, place, ok = w.ask(); ok {
		w.last = true
		next = w.queue.successor(w)
	}
	return token, place, next, ok
}

// An Outcome is what an offer brought the waiter to which the lock was offered, or a last question the next one.
type Outcome uint8

const (
	// WasQueued: the waiter has a place in the store's queue.
	WasQueued Outcome = iota
	// WasGranted: the waiter has the lock.
	WasGranted
	// WasNotHeld: the one who gave the lock back did not have it, so the waiter has no place by that. The same is said
	// where the one that asked for the last time has the lock.
	WasNotHeld
	// WasUnanswered: the command ended without an answer, so the waiter may have a place, or the
	// lock, or neither.
	WasUnanswered
)

// An OfferResult is what came of a command that gave a lock back and offered it to a waiter, or that was to bring a waiter its place.
type OfferResult struct {
	To      store.Ref // the waiter to which the lock was offered
	Outcome Outcome
	Sent    time.Time   // when the command was sent
	Grant   store.Grant // the waiter's, with WasGranted; otherwise its Clock, if there was an answer
	Session uint64      // passed to the waiter's Grant as it is
}

// OfferEnded notes what came of the command for which Offer or AskLast has returned a waiter. It
// reports whether that one waits no more.
func (s *Set) OfferEnded(a OfferResult) (gone bool) {
	p := s.of(a.To.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.tokens[a.To.Token]
	if w == nil {
		return true
	}
	if a.Outcome == WasUnanswered {
		w.on(unanswered)
		w.nudge(true) // its own command finds out
		return false
	}
	// asked and seen stay as they are: this answer says nothing of the lock's holder, nor of
	// the places of those that stand in the store's queue.
	w.queue.noteClock(Clock{a.Sent, a.Grant.Clock})
	switch a.Outcome {
	case WasGranted:
		w.serve(Grant{Grant: a.Grant, Token: a.To.Token, TTL: a.To.TTL, Since: a.Sent, Session: a.Session})
	case WasNotHeld:
		w.on(declined)
		w.nudge(true)
	default:
		w.on(placed)
		w.nudge(false)
	}
	return false
}

// Granted delivers a grant of which the store has told, in a message or in the reply to a
// release of this Locker. It reports whether somebody waits for it.
func (s *Set) Granted(g store.News) bool {
	p := s.of(g.Ref.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.tokens[g.Ref.Token]
	if w == nil {
		return false
	}
	since, ok := w.queue.clock.Since(g.Clock)
	if !ok {
		since = time.Time{}
	}
	w.serve(Grant{Grant: g.Grant, Token: g.Ref.Token, TTL: g.Ref.TTL, Since: since, Published: true})
	return true
}

// ForgetHolder notes that holder neither passes the lock on nor offers it any more, though it may
// still have it.
func (s *Set) ForgetHolder(key string, holder any) { s.forget(key, holder, nil) }

// Overstays notes that holder has the lock for longer than it was to have it. It does not pass the lock on any more, and nobody waits for it:
// whoever rests asks. Its release may still offer the lock, which comes before the answer to that question.
func (s *Set) Overstays(key string, holder any) { s.forget(key, holder, holder) }

func (s *Set) forget(key string, holder, overstays any) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	switch {
	case q == nil:
	case q.holder == holder:
		q.holder, q.overstays = nil, overstays
		p.tidy(q)
	case q.overstays == holder:
		q.overstays = overstays
	}
}
