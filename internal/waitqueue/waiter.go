package waitqueue

import (
	"container/list"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A Waiter is one call that waits for a lock. Its exported fields and methods are for the
// goroutine that waits. What the Set and its queues know of it is guarded by the mutex of
// its shard, but for mustAsk.
type Waiter struct {
	Grants chan Grant    // has room for one: the news that the lock is the waiter's
	Wake   chan struct{} // has room for one: a reason to look at MustAsk, and at Set.Look

	mustAsk atomic.Bool
	shard   *shard
	queue   *queue        // nil: PassOn has taken the waiter out
	place   *list.Element // of the waiter in queue.waiters
	number  int64         // grows along a queue, so that two waiters can be compared
	ref     store.Ref     // without a token until the store is to know of the waiter
	caller  Caller
	came    time.Time
	state   State // changed by on alone (state.go)
	last    bool  // it has asked for the last time

	inFlight int // its commands that have no answer yet; changed by counts alone
}

// A Grant is the news that a waiter has the lock.
type Grant struct {
	store.Grant // where the lock was handed on within the Locker, the fence alone
	Token       string
	TTL         time.Duration
	Since       time.Time // a moment not later than the grant, on this machine's clock; zero: not known
	Published   bool      // the grant came as a message of a script, published or in the reply to a release of this Locker; its TTL is a short first one
	Session     uint64    // of the subscription; what the OfferResult had
	Tenure      any       // what the lock is held under if it was handed on within the Locker; nil: the store granted it
}

// counts notes n more commands of w that are under way, and of its queue.
func (w *Waiter) counts(n int) {
	w.inFlight += n
	w.queue.inFlight += n
}

// MustAsk reports whether the waiter has been told to ask the store, and forgets it.
func (w *Waiter) MustAsk() bool { return w.mustAsk.Swap(false) }

// nudge wakes the waiter, and has it ask the store if ask says so.
func (w *Waiter) nudge(ask bool) {
	if ask {
		w.mustAsk.Store(true)
	}
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// serve delivers a grant of the store.
func (w *Waiter) serve(g Grant) {
	w.on(served)
	select {
	case w.Grants <- g:
	default: // an older grant lies there unread; it is as good
	}
}

// wantsAlone reports whether the waiter wants the lock for itself alone. Only such waiters
// rest, and pass the lock on to one another.
func (w *Waiter) wantsAlone() bool { return w.ref.Kind == (store.Kind{}) }

// position is what the store needs to know to give w its place in the store's queue,
// whether it stands there already or not.
func (w *Waiter) position() store.Place {
	return store.Place{Waited: time.Since(w.came), Behind: w.queue.resting}
}

// offer notes that a command of another one tells the store of w, and returns what it is to tell.
func (w *Waiter) offer() store.Waiter {
	w.shard.register(w)
	w.on(offered)
	return store.Waiter{Ref: w.ref, Place: w.position()}
}

// before reports whether w came before all others that wait for the lock that token has, as
// far as is known.
func (w *Waiter) before(token string) bool {
	q := w.queue
	if q.others.token != token || q.others.came == 0 {
		return true
	}
	return q.clock.Server != 0 && q.clock.Server+w.came.Sub(q.clock.Sent).Microseconds() < q.others.came
}

// A Clock is what the store's clock said in the answer to a command.
type Clock struct {
	Sent   time.Time // when the command was sent: the store read its clock then, or later
	Server int64     // what it read, µs; 0: nothing is known of the clock
}

// Since returns a moment on this machine's clock that is not later than the time at of the
// store's clock. ok is false if nothing is known of that clock, or if at lies in the future:
// then another server must have said it, as after a fail-over.
func (c Clock) Since(at int64) (moment time.Time, ok bool) {
	if c.Server == 0 {
		return time.Time{}, false
	}
	passed := time.Duration(at-c.Server) * time.Microsecond
	passed -= passed.Abs() / 100 // the clocks' rates may differ by up to 1 %
	moment = c.Sent.Add(passed)
	return moment, time.Until(moment) <= 0
}
