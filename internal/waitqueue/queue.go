package waitqueue

import (
	"container/list"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A queue has the waiters of this Locker for one key, in the order in which they came. It
// exists while somebody waits, or has the lock and can pass it on. The mutex of its shard
// guards it and its waiters.
type queue struct {
	key        string
	waiters    list.List     // of *Waiter
	firstAlone *list.Element // of those that want the lock for themselves alone, or nil
	firstAwake *list.Element // of those that do not rest, or nil
	resting    int           // how many of the waiters rest
	holder     any           // the caller's value for whoever has the lock and passes it on or offers it at its end, or nil
	overstays  any           // the last holder, for which nobody waits any more, see Overstays; or nil

	others othersWaiting // the first of those that wait in the store

	inFlight int       // commands of the waiters that have no answer yet
	asked    time.Time // when the last command was sent that was answered; at first, when the queue was made
	answered time.Time // when the last answer came
	clock    Clock     // what the last answer said of the store's clock
	seen     any       // the caller's value for what the last answer told of the lock's holder; nil when one of this Locker has given it back
}

// An othersWaiting is what a grant or a message has told of those that wait in the store: the first
// of them came at came, on the store's clock, while token had the lock. If came is 0, nobody is
// known to.
type othersWaiting struct {
	token string
	came  int64
}

// contend notes that somebody who waits in the store came at the time came, while token had
// the lock; 0: nobody does.
func (q *queue) contend(token string, came int64) {
	switch c := &q.others; {
	case c.token != token:
		*c = othersWaiting{token, came}
	case c.came == 0, came != 0 && came < c.came:
		c.came = came
	}
}

// at returns the waiter at a place of queue.waiters.
func at(e *list.Element) *Waiter { return e.Value.(*Waiter) }

// add puts w at the end. If canRest, a holder can offer the lock to a waiter that the store does
// not know before, so w rests where somebody in front of it sees to its turn.
func (q *queue) add(w *Waiter, canRest bool) {
	w.queue, w.state = q, Asking
	if canRest && w.wantsAlone() && (q.holder != nil || q.firstAlone != nil) {
		w.state = Resting
		q.resting++
	}
	if last := q.waiters.Back(); last != nil {
		w.number = at(last).number + 1
	}
	w.place = q.waiters.PushBack(w)
	if w.state != Resting {
		q.noteAwake(w)
	}
	if q.firstAlone == nil && w.wantsAlone() {
		q.firstAlone = w.place
	}
}

// addFirst puts w, which is to ask the store, in front of all others.
func (q *queue) addFirst(w *Waiter) {
	w.queue, w.number = q, 0
	if front := q.waiters.Front(); front != nil {
		w.number = at(front).number - 1
	}
	w.place = q.waiters.PushFront(w)
	q.firstAlone, q.firstAwake = w.place, w.place
}

// noteAwake notes that w does not rest, or no longer.
func (q *queue) noteAwake(w *Waiter) {
	if q.firstAwake == nil || w.number < at(q.firstAwake).number {
		q.firstAwake = w.place
	}
}

// remove takes w out because of an event. If w was the asker, its successor is woken.
func (q *queue) remove(w *Waiter, e event) {
	w.on(e)
	w.counts(-w.inFlight) // nothing comes of a command any more whose caller leaves in the middle, as after a panic
	if q.firstAlone == w.place {
		q.firstAlone = q.nextAlone(w)
	}
	wasFirst, next := q.firstAwake == w.place, w.place.Next()
	q.waiters.Remove(w.place)
	if !wasFirst {
		return
	}
	q.firstAwake = nil
	if q.resting == q.waiters.Len() {
		return
	}
	// All in front of w rest, so the next that does not is behind it.
	for at(next).state == Resting {
		next = next.Next()
	}
	q.firstAwake = next
	at(next).nudge(false)
}

// nextAlone returns the place of the first behind w that wants the lock for itself alone, or nil.
func (q *queue) nextAlone(w *Waiter) *list.Element {
	next := w.place.Next()
	for next != nil && !at(next).wantsAlone() {
		next = next.Next()
	}
	return next
}

// successor returns the waiter that is to have a place in the store when w leaves its own: the first one that rests behind w, where w
// stands there for it. Those that are about to leave, too, are passed over. Without a token there is none.
func (q *queue) successor(w *Waiter) store.Waiter {
	if q.holder != nil {
		return store.Waiter{}
	}
	first := q.firstAlone
	for first != nil && at(first).last && first != w.place {
		first = q.nextAlone(at(first))
	}
	if first != w.place {
		return store.Waiter{}
	}
	next := q.nextAlone(w)
	for next != nil && at(next).last {
		next = q.nextAlone(at(next))
	}
	if next == nil || at(next).state != Resting {
		return store.Waiter{}
	}
	return at(next).offer()
}

// asker returns the waiter that asks the store again and again on behalf of all: the first
// one that does not rest, or nil. By that the places of the others in the store's queue stay
// alive, and it is found out that a holder has died, or that a message of a grant was lost.
func (q *queue) asker() *Waiter {
	if q.firstAwake == nil {
		return nil
	}
	return at(q.firstAwake)
}

// promote has somebody see to the turn of those who rest, after a change: where there is no
// holder any more, the first waiter that could rest is to ask the store. It reports whether
// the queue is of no use any more.
func (q *queue) promote() (empty bool) {
	if q.holder != nil {
		return false
	}
	if q.firstAlone != nil && at(q.firstAlone).state == Resting {
		w := at(q.firstAlone)
		w.shard.startAsking(w)
		w.nudge(true)
	}
	return q.waiters.Len() == 0
}

// noteClock notes that an answer came, and what it said of the store's clock.
func (q *queue) noteClock(clock Clock) { q.answered, q.clock = time.Now(), clock }
