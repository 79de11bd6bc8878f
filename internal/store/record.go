package store

import "time"

// Answers that are kept beside a key: what Give.Record keeps, Request.Recall looks for, and Answer.Recalled tells. In the place
// of an answer there may be the intent of work that was begun, whose holder died or lost track of it.

// A Record is the answer of work that was done under a key, kept beside it.
type Record struct {
	Fingerprint string        // of what was asked for: not empty, and without blanks
	Data        string        // the answer itself, in the caller's form
	Retain      time.Duration // for how long it answers whoever comes

	// Work is the id of the work, if that was noted as begun. Then the record is kept also where the token has lost the key, as
	// long as the intent is there. Zero: it was not noted.
	Work int64

	// Undone says that there is no answer: the work is as if it had not begun. Nothing is kept, and its intent goes.
	Undone bool
}

// A Recall says whom a record has to answer: it answers whoever comes within its Retain, and whoever asks for the
// same and had come when it was made. An intent of work that was begun is told to whoever asks, unless another has the key.
type Recall struct {
	Fingerprint string        // of what the caller asks for
	Waited      time.Duration // since the caller came
	Intent      *Intent       // with Store.Recall: that the token's work begins, to be kept unless there is a record; or nil
}

// An Intent says that work begins: a process that dies in the middle has left it.
type Intent struct {
	Work   int64         // its id: no other work under the key has the same
	Lies   time.Duration // for how long the intent is there at most
	Retain time.Duration // that of the record with the work's answer
	Form   string        // how the answer is to be read, for whoever makes a record of the intent
}

// A Recalled is a record that was found, or an intent of work that was begun. Times are of the clock of Grant.Clock.
type Recalled struct {
	Record       // an answer has no Work and no Retain; an intent has its Form as Data
	Made   int64 // whoever had come before that waited for it; of an intent, when the work began
	Until  int64 // before that it answers whoever comes; of an intent zero
	Clock  int64 // when it was found
}

// Begun reports whether it is an intent of work that was begun.
func (r *Recalled) Begun() bool { return r.Work != 0 }

// Resolved is what came of Store.Resolve.
type Resolved uint8

const (
	// NoSuchWork: the intent is not there, or is of other work.
	NoSuchWork Resolved = iota
	// IsResolved: the intent has given way to the record.
	IsResolved
	// StillHeld: somebody has the key, and may be at work.
	StillHeld
)
