package store

import "time"

// What a store keeps of calls whose policy runs in shadow (lockmw.Policy.Shadow): they hold no lock, and are at work all the same.

// NoteEvery is how often a work that goes on is to be noted.
const NoteEvery = time.Second

// A Work is a call in shadow that is, or was, at work on a key.
type Work struct {
	Key   string
	Token string // made by NewToken of the same store
	Kind  Kind   // of the lock that the call would have had

	Began time.Duration // how long ago the work began
	Ended time.Duration // how long ago it ended; negative: it goes on

	// Noted is what Note said the last time of the same work; zero: it has not said anything yet.
	Noted int64

	// Looks has Note look at the lock itself, too: whether somebody has it who is not in shadow.
	Looks bool
}

// Beside is what was found beside a Work.
type Beside struct {
	Noted int64 // for Work.Noted: when the work began, by the store's clock; never zero

	// Overlaps: somebody else was at work on the key when this work began, or has the lock now, and the lock would have kept
	// them apart. Of others in shadow the first note of a work alone tells: of two works, the one that is noted later.
	Overlaps bool

	// Locked: somebody has the lock, who is not in shadow.
	Locked bool
}
