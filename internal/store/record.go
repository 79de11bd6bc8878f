package store

import "time"

// Answers that are kept beside a key: what Give.Record keeps, Request.Recall looks for, and Answer.Recalled tells.

// A Record is the answer of work that was done under a key, kept beside it.
type Record struct {
	Fingerprint string        // of what was asked for: not empty, and without blanks
	Data        string        // the answer itself, in the caller's form
	Retain      time.Duration // for how long it answers whoever comes
}

// A Recall says whom a record has to answer: it answers whoever comes within its Retain, and whoever asks for the
// same and had come when it was made.
type Recall struct {
	Fingerprint string        // of what the caller asks for
	Waited      time.Duration // since the caller came
}

// A Recalled is a record that was found. Times are of the clock of Grant.Clock.
type Recalled struct {
	Record       // without Retain
	Made   int64 // whoever had come before that waited for it
	Until  int64 // before that it answers whoever comes
	Clock  int64 // when it was found
}
