package store

import "time"

// What Inspect tells of a key.

// Info tells who has a key.
type Info struct {
	Kind    Kind // of the holders; Permits is the least that binds now
	Holders []Holder
	Waiting int      // places in the queue, and those behind them that other store values told of
	Queue   []Queued // the first of the places, in their order; nil where there is no queue
	Answer  *Kept
}

// A Kept is what lies beside a key: an answer, or the intent of work that was begun. Times are in µs since 1970, by the store's clock.
type Kept struct {
	Work  int64 // of an intent; 0: it is an answer
	Since int64 // when the answer was made, or the work began
	Until int64 // before that an answer is for whoever comes
	Bytes int   // of an answer
}

// A Queued is one who has a place in the queue of a key.
type Queued struct {
	Instance string // of its Store
	Note     string // its caller's
	Kind     Kind
	Waited   time.Duration // since it came; 0 if that is not known
}

// A Holder is one who has a key.
type Holder struct {
	Instance string        // of its Store; empty if a foreign program has the key
	Note     string        // its caller's
	Age      time.Duration // since the grant; 0 if that is not known
	Left     time.Duration // of the TTL; negative: there is none

	// CoolingDown: it was given back with a Stay, and has the key for Left only so that
	// nobody else gets it. Where the store does not know, it is false.
	CoolingDown bool

	// HandedOn: it has handed the key on to a Ticket, which has it for Left if nobody asks for it by that.
	HandedOn bool
}
