package waitqueue

// A State is what is known of a waiter. The package comment has a picture of the ways between
// them.
type State uint8

const (
	// Resting: the store does not know the waiter, and need not. Somebody of its Locker
	// has the lock and passes it on, or asks for it.
	Resting State = iota
	// Asking: the waiter has to ask the store. A command is under way, or is to be sent.
	// Earlier commands that had no answer may have left a place in the store, or the lock;
	// that is not known here.
	Asking
	// Queued: the waiter has a place in the store's queue, as far as an answer tells.
	Queued
	// Offered: a command is under way that gives the lock back and tells the store that the
	// waiter is the next one; or one by which the waiter before it leaves the store's queue, and that
	// tells the store of this one. Its answer is not there yet.
	Offered
	// Doubtful: such a command ended without an answer. The waiter may have a place, or the
	// lock, or may get either yet, if the command is still carried out.
	Doubtful
	// Served: the lock was granted to the waiter, which has not taken it yet.
	Served
	// Gone: the waiter has left.
	Gone

	states = iota
)

var stateNames = [states]string{"resting", "asking", "queued", "offered", "doubtful", "served", "gone"}

// String returns the state in one word.
func (s State) String() string { return stateNames[s] }

// An event is something that happens to a waiter, and may change its state.
type event uint8

const (
	asks       event = iota // the waiter asks the store, or has to, since nobody sees to its turn any more
	queued                  // the store's answer to the waiter's command: it has a place in the queue
	unqueued                // the store's answer to the waiter's command: it has no place
	offered                 // a command that gives the lock back offers it to the waiter, or one of the waiter before it is to bring it a place
	placed                  // that command's answer: the waiter has a place
	declined                // that command's answer: the lock was not given back, or the one before it has it, so the waiter has no place by that
	unanswered              // that command ended without an answer
	served                  // the lock was granted to the waiter
	leaves                  // the waiter takes the lock, or gives up

	events = iota
)

// next has all transitions. The first line of each state has those that lead to another one, the
// second those that change nothing; Gone has only these. An event that says nothing new leaves a state as it is, and so
// does one that cannot happen in that state.
var next = [states][events]State{
	Resting: {
		asks: Asking, offered: Offered, served: Served, leaves: Gone,
		queued: Resting, unqueued: Resting, placed: Resting, declined: Resting, unanswered: Resting,
	},
	Asking: { // it is offered the lock all the same: its own command may reach the store after the release
		queued: Queued, offered: Offered, served: Served, leaves: Gone,
		asks: Asking, unqueued: Asking, placed: Asking, declined: Asking, unanswered: Asking,
	},
	Queued: {
		unqueued: Asking, served: Served, leaves: Gone,
		asks: Queued, queued: Queued, offered: Queued, placed: Queued, declined: Queued, unanswered: Queued,
	},
	Offered: { // queued and unqueued change nothing: that answer may be older than the offer
		placed: Queued, declined: Asking, unanswered: Doubtful, served: Served, leaves: Gone,
		asks: Offered, queued: Offered, unqueued: Offered, offered: Offered,
	},
	Doubtful: { // queued and unqueued change nothing: the release without an answer may yet be carried out
		offered: Offered, served: Served, leaves: Gone,
		asks: Doubtful, queued: Doubtful, unqueued: Doubtful, placed: Doubtful, declined: Doubtful, unanswered: Doubtful,
	},
	Served: { // it asks again where the grant came too late, or has to be confirmed
		asks: Asking, leaves: Gone,
		queued: Served, unqueued: Served, offered: Served, placed: Served, declined: Served, unanswered: Served, served: Served,
	},
	Gone: {
		asks: Gone, queued: Gone, unqueued: Gone, offered: Gone, placed: Gone, declined: Gone, unanswered: Gone, served: Gone, leaves: Gone,
	},
}

// on changes the state of w as the table says. Whoever rests has done so since it joined, so
// the queue's count of them can only fall here. One that stops resting and stays in the queue,
// to ask or with an offer, is awake from now on; in any other state it is about to be removed.
func (w *Waiter) on(e event) {
	was := w.state
	w.state = next[was][e]
	if was == Resting && w.state != Resting {
		w.queue.resting--
		if w.state == Asking || w.state == Offered {
			w.queue.noteAwake(w)
		}
	}
}
