package waitqueue

// A State is what is known of a waiter. The package comment has a picture.
type State uint8

const (
	// Resting: the store does not know the waiter, and need not. Somebody of its process
	// has the key and passes it on, or asks for it.
	Resting State = iota
	// Asking: the waiter has to ask the store. A command is under way, or is to be sent.
	// What commands without an answer have left in the store is not known here.
	Asking
	// Queued: the waiter has a place in the store's queue.
	Queued
	// Offered: a command that gives the key back names the waiter as the next one, and its
	// answer is not there yet.
	Offered
	// Doubtful: such a command was not answered. The waiter may have a place, or the key,
	// or may get either yet, if the command is still carried out.
	Doubtful
	// Served: the key was granted to the waiter, which has not taken it yet.
	Served
	// Gone: the waiter has left.
	Gone

	states = iota
)

var stateNames = [states]string{"resting", "asking", "queued", "offered", "doubtful", "served", "gone"}

// String returns the state in one word.
func (s State) String() string { return stateNames[s] }

// An event changes the state of a waiter.
type event uint8

const (
	asks       event = iota // it asks the store, or is told to
	queued                  // the store's answer to it: it has a place in the queue
	unqueued                // the store's answer to it: it has none
	offered                 // a command that gives the key back names it
	placed                  // that command's answer: it has a place
	declined                // that command's answer: the key was not given back, and it has no place by that
	unanswered              // there was no answer to that command
	served                  // it has the key
	leaves

	events = iota
)

// next has all transitions. An event that says nothing new leaves a state as it is. So
// does one that cannot happen in that state.
var next = [states][events]State{
	Resting: {
		asks: Asking, offered: Offered, served: Served, leaves: Gone,
		queued: Resting, unqueued: Resting, placed: Resting, declined: Resting, unanswered: Resting,
	},
	Asking: { // it is named if its command may reach the store after the one that names it
		queued: Queued, offered: Offered, served: Served, leaves: Gone,
		asks: Asking, unqueued: Asking, placed: Asking, declined: Asking, unanswered: Asking,
	},
	Queued: {
		unqueued: Asking, served: Served, leaves: Gone,
		asks: Queued, queued: Queued, offered: Queued, placed: Queued, declined: Queued, unanswered: Queued,
	},
	Offered: { // an answer to a command of its own may be older than the offer
		placed: Queued, declined: Asking, unanswered: Doubtful, served: Served, leaves: Gone,
		asks: Offered, queued: Offered, unqueued: Offered, offered: Offered,
	},
	Doubtful: { // the answer to a command of its own does not say what becomes of the other one
		offered: Offered, served: Served, leaves: Gone,
		asks: Doubtful, queued: Doubtful, unqueued: Doubtful, placed: Doubtful, declined: Doubtful, unanswered: Doubtful,
	},
	Served: { // it asks if the grant is of no use
		asks: Asking, leaves: Gone,
		queued: Served, unqueued: Served, offered: Served, placed: Served, declined: Served, unanswered: Served, served: Served,
	},
	Gone: {
		asks: Gone, queued: Gone, unqueued: Gone, offered: Gone, placed: Gone, declined: Gone, unanswered: Gone, served: Gone, leaves: Gone,
	},
}

// on takes in an event.
func (w *Waiter) on(e event) {
	was := w.state
	w.state = next[was][e]
	if was == Resting && w.state != Resting { // none begins to rest later
		w.queue.resting--
		if w.state == Asking || w.state == Offered { // otherwise it leaves
			w.queue.awake(w)
		}
	}
}
