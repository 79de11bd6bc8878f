// Package history judges what workers saw: an exact scan for holders that
// overlap, a scan of the fences, and the models for porcupine. Start reading at
// Hold; overlap.go, fences.go, tickets.go, answers.go and models.go each ask one question.
//
// All times are of package clock, so those of several processes can be compared.
package history

import (
	"fmt"
	"time"
)

// Kind says who may hold a key together.
type Kind string

// The kinds of locks.
const (
	Mutex   Kind = "mutex"
	Readers Kind = "readers/writer"
	Permits Kind = "permits"
)

// Ways in which a hold came to its end.
const (
	Released = "released"
	Lost     = "lost"   // its context ended before it was released
	Unsure   = "unsure" // released, and not confirmed
	Killed   = "killed" // with its process
)

// Hold is one hold interval: from the moment Acquire returned to the first of
// these: the call of Release, the end of the lease's context, the end of what the
// lease itself says it is valid, the death of the process. Of a process that is killed
// it is what it told last until when its lease was valid.
type Hold struct {
	Key     string        `json:"key"`
	Kind    Kind          `json:"kind"`
	Shared  bool          `json:"shared,omitempty"`  // a reader
	Permits int           `json:"permits,omitempty"` // how many may hold the key
	Worker  string        `json:"worker"`            // its process
	ID      int           `json:"id"`                // within its process
	Asked   time.Duration `json:"asked"`             // Acquire was called
	Began   time.Duration `json:"began"`             // Acquire returned
	Until   time.Duration `json:"until,omitempty"`   // the lease said that it is valid, as it was told last; 0: it does not say
	Ended   time.Duration `json:"ended"`
	Freed   time.Duration `json:"freed"` // Redis had given it up by now
	How     string        `json:"how"`
	Fence   int64         `json:"fence,omitempty"`
	Ticket  string        `json:"ticket,omitempty"`  // the job by whose ticket it went on; empty: the lock was asked for
	HandsOn string        `json:"handsOn,omitempty"` // the job to whose ticket its release is to hand the lock on; empty: it gives the lock back
	Lasts   time.Duration `json:"lasts,omitempty"`   // for how long that ticket has the lock
	Print   string        `json:"print,omitempty"`   // of work of Do: the fingerprint of the request
	Fails   bool          `json:"fails,omitempty"`   // of work of Do: it does nothing, and says so
}

// Name is that of no other hold.
func (h Hold) Name() string { return fmt.Sprintf("%s/%d", h.Worker, h.ID) }

// Write is one write to the fenced store.
type Write struct {
	Key      string        `json:"key"`
	Worker   string        `json:"worker"`
	ID       int           `json:"id"` // of the hold it belongs to
	Fence    int64         `json:"fence"`
	Called   time.Duration `json:"called"`
	Returned time.Duration `json:"returned"`
	Accepted bool          `json:"accepted"`
	Highest  int64         `json:"highest"` // what the store had seen before
	Place    int64         `json:"place"`   // in the order in which the store did its writes
	Late     bool          `json:"late"`    // made on purpose after the hold had ended
}

// byKey groups what belongs to one key.
func byKey[T any](all []T, key func(T) string) map[string][]T {
	groups := make(map[string][]T)
	for _, one := range all {
		groups[key(one)] = append(groups[key(one)], one)
	}
	return groups
}
