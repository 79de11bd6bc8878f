package waitqueue

import (
	"container/list"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A queue has the waiters for one key, in the order in which they came. There is one
// while somebody waits, or has a key that he can pass on. Its shard's mutex guards it and
// its waiters.
type queue struct {
	key     string
	waiters list.List     // of *Waiter
	alone   *list.Element // the first of those that want the key for themselves alone, or nil
	asking  *list.Element // the first of those that do not rest, or nil
	resting int           // how many rest
	holder  any           // who passes the key on to a waiter when it gives it back, or nil

	// contended tells of the first who stands in the store's queue for the key, behind the
	// one of this process that has it.
	contended contention

	inFlight int       // so many commands of its waiters have no answer yet
	asked    time.Time // when the last command was sent that was answered
	answered time.Time // when its answer came
	clock    Clock
	seen     any // what the last answer told of the holder; the caller's
}

// A contention says when the first in the store's queue came for a key that token has, on
// the store's clock; 0: nobody is known.
type contention struct {
	token string
	came  int64
}

// contend notes that somebody of another process came for the key that token has.
func (q *queue) contend(token string, came int64) {
	switch c := &q.contended; {
	case c.token != token:
		*c = contention{token, came}
	case c.came == 0, came != 0 && came < c.came:
		c.came = came
	}
}

// before reports whether w came before all others that wait for the key that token has, as
// far as is known.
func (w *Waiter) before(token string) bool {
	q := w.queue
	if q.contended.token != token || q.contended.came == 0 {
		return true
	}
	return q.clock.Server != 0 && q.clock.Server+w.came.Sub(q.clock.Sent).Microseconds() < q.contended.came
}

// A Clock is what the store's clock said in the answer to a command: it said so when the
// command was sent, or later.
type Clock struct {
	Sent   time.Time
	Server int64 // µs
}

// Since returns a moment that is not later than the store's time at. ok is false if the
// store's clock has said nothing yet, or something that another server must have said, as
// after a fail-over.
func (c Clock) Since(at int64) (moment time.Time, ok bool) {
	if c.Server == 0 {
		return time.Time{}, false
	}
	passed := time.Duration(at-c.Server) * time.Microsecond
	passed -= passed.Abs() / 100 // the clocks' rates may differ by up to 1 %
	moment = c.Sent.Add(passed)
	return moment, time.Until(moment) <= 0
}

// A Waiter is one call that waits for a key. Its methods are for the goroutine that
// waits; the Set's methods may be called by any.
type Waiter struct {
	Grants chan Grant    // the key is the waiter's; one at most lies there
	Wake   chan struct{} // look at MustAsk, and at Set.Look

	mustAsk atomic.Bool
	shard   *shard
	queue   *queue
	place   *list.Element
	number  int64     // those of a queue have numbers that grow
	ref     store.Ref // without a token until the store is to know of the waiter
	caller  Caller
	came    time.Time
	state   State
}

// A Grant is the news that a waiter has the key.
type Grant struct {
	Token     string
	Fence     int64
	Clock     int64     // the store's when it granted it, µs
	Since     time.Time // not later than when the store granted it; zero: that is not known
	TTL       time.Duration
	Published bool   // it came as a message: no command of this process was answered by it
	Session   uint64 // of the subscription, as the Naming says
	Contended int64  // the store's clock when the first of those came who wait on after the grant, µs; 0: nobody
	Tenure    any    // the key was handed on within the process, by this one; nil: the store gave it
}

// MustAsk reports whether the waiter has been told to ask the store, and forgets it.
func (w *Waiter) MustAsk() bool { return w.mustAsk.Swap(false) }

// nudge wakes the waiter, and has it ask the store if that is wanted.
func (w *Waiter) nudge(ask bool) {
	if ask {
		w.mustAsk.Store(true)
	}
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// serve delivers a grant.
func (w *Waiter) serve(g Grant) {
	w.on(served)
	select {
	case w.Grants <- g:
	default: // an older grant lies there unread; it is as good
	}
}

// wantsAlone reports whether the waiter wants the key for itself alone. Only such waiters
// rest, and pass the key on to one another.
func (w *Waiter) wantsAlone() bool { return w.ref.Kind == (store.Kind{}) }

// at returns the waiter at a place of a queue.
func at(e *list.Element) *Waiter { return e.Value.(*Waiter) }

// add puts w at the end. canRest says that a holder can name the next to the store, so that the store need not know it before.
func (q *queue) add(w *Waiter, canRest bool) {
	w.queue, w.state = q, Asking
	if canRest && w.wantsAlone() && (q.holder != nil || q.alone != nil) {
		w.state = Resting
		q.resting++
	}
	if last := q.waiters.Back(); last != nil {
		w.number = at(last).number + 1
	}
	w.place = q.waiters.PushBack(w)
	if w.state != Resting {
		q.awake(w)
	}
	if q.alone == nil && w.wantsAlone() {
		q.alone = w.place
	}
}

// addFirst puts w, which asks, in front of all others.
func (q *queue) addFirst(w *Waiter) {
	w.queue, w.number = q, 0
	if front := q.waiters.Front(); front != nil {
		w.number = at(front).number - 1
	}
	w.place = q.waiters.PushFront(w)
	q.alone, q.asking = w.place, w.place
}

// awake notes that w does not rest.
func (q *queue) awake(w *Waiter) {
	if q.asking == nil || w.number < at(q.asking).number {
		q.asking = w.place
	}
}

// remove takes w out because of an event, and wakes the one who asks the store for the
// others, if it is another one by that.
func (q *queue) remove(w *Waiter, e event) {
	w.on(e)
	if q.alone == w.place {
		for q.alone = w.place.Next(); q.alone != nil && !at(q.alone).wantsAlone(); {
			q.alone = q.alone.Next()
		}
	}
	wasFirst, next := q.asking == w.place, w.place.Next()
	q.waiters.Remove(w.place)
	if !wasFirst {
		return
	}
	q.asking = nil
	if q.resting == q.waiters.Len() {
		return
	}
	// All in front of w rest, so the next that does not is behind it.
	for at(next).state == Resting {
		next = next.Next()
	}
	q.asking = next
	at(next).nudge(false)
}

// asker returns the waiter that asks the store again and again, for all: the first one
// that does not rest. It keeps alive the places of the others in the store's queue, and
// finds a holder that has died, and grants whose message was lost.
func (q *queue) asker() *Waiter {
	if q.asking == nil {
		return nil
	}
	return at(q.asking)
}

// promote restores what holds at all times, see the package comment. It reports whether
// the queue is of no use any more.
func (q *queue) promote() (empty bool) {
	if q.holder != nil {
		return false
	}
	if q.alone != nil && at(q.alone).state == Resting {
		w := at(q.alone)
		w.shard.know(w)
		w.nudge(true)
	}
	return q.waiters.Len() == 0
}

// noteClock notes what an answer said of the store's clock.
func (q *queue) noteClock(clock Clock) { q.answered, q.clock = time.Now(), clock }

// position is the place of w in the store's queue, whether it stands there or not.
func (w *Waiter) position() store.Place {
	return store.Place{Waited: time.Since(w.came), Behind: w.queue.resting}
}
