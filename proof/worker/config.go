// Package worker is the process that takes locks while the nemesis is at work. It
// is the test's own program, started again: call Main first in TestMain. A test
// starts one with Start, and gets what it saw as a history.
//
// config.go says what a worker does, work.go does it, answers.go does what asks for
// answers, process.go is the test's side.
package worker

import (
	"time"

	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/history"
)

// Config says what a worker does.
type Config struct {
	Name   string        `json:"name"`
	Engine string        `json:"engine"`
	Redis  engines.Redis `json:"redis"`  // or proxies before it
	Fenced string        `json:"fenced"` // address of the fenced store; empty: none
	SQL    string        `json:"sql"`    // how the fenced store is opened that is a PostgreSQL, in the place of Fenced; empty: none
	Seed   uint64        `json:"seed"`
	TTL    time.Duration `json:"ttl"`
	Wait   time.Duration `json:"wait"`
	Epoch  time.Duration `json:"epoch"` // after this long the keys get other names, so that no key's history grows too long
	Rest   time.Duration `json:"rest"`  // after a refusal; without any, workers that are refused at once keep a small machine busy
	Keys   []Key         `json:"keys"`
}

// Key is one key and how it is used.
type Key struct {
	Name       string        `json:"name"`
	Kind       history.Kind  `json:"kind"`
	Permits    int           `json:"permits"`
	Writers    int           `json:"writers"` // of a readers/writer lock: one in so many takes it alone
	Goroutines int           `json:"goroutines"`
	Least      time.Duration `json:"least"` // each hold lasts between these two
	Most       time.Duration `json:"most"`
	Think      time.Duration `json:"think"`      // at most so long between two
	Turns      int           `json:"turns"`      // per goroutine; 0: until the worker is told to end
	Watch      bool          `json:"watch"`      // asks Valid without a pause while it holds
	StaysAlive bool          `json:"staysAlive"` // holds until it is lost, or the worker is told to end
	Hands      int           `json:"hands"`      // each hold hands the lock on to a job, and that to a further one, so often; see Job
	Asks       int           `json:"asks"`       // more than 0: a turn takes no lock, but has up to so many ask for one answer (lockmw.Do), a Job each
	Uncertain  bool          `json:"uncertain"`  // they ask by Crash: Uncertain
}

// Job is work that goes on under the lock of a hold that is over, by a ticket. A worker tells of it before the work that makes it or after that,
// and whoever has started the workers gives it to one of them, at least once, as a job queue does: Process.Give. By a ticket that is spent the worker
// asks for the lock itself. A job of a key with Asks is done when somebody has asked for the answer, and heard what there is to be heard.
type Job struct {
	ID     string `json:"id"`     // that of no other job
	Of     string `json:"of"`     // the name of the Key
	Key    string `json:"key"`    // as it was locked
	Ticket string `json:"ticket"` //
	Hands  int    `json:"hands"`  // how often the lock is handed on after this

	Discard bool `json:"discard,omitempty"` // it is not to be done any more: the worker lets its lock go, or the caller leaves soon

	Print string `json:"print,omitempty"` // of a key with Asks: the fingerprint of the request
}

// event is one line that a worker writes.
type event struct {
	Began     *history.Hold       `json:"began,omitempty"`
	Renewed   *history.Hold       `json:"renewed,omitempty"` // it is valid until later
	Ending    *history.Hold       `json:"ending,omitempty"`  // told before Release is called
	Ended     *history.Hold       `json:"ended,omitempty"`
	Write     *history.Write      `json:"write,omitempty"`
	Refused   *Refusal            `json:"refused,omitempty"`
	Woke      *Woke               `json:"woke,omitempty"`
	Done      time.Duration       `json:"done,omitempty"` // the context of a lost hold had ended by now
	Queued    *Job                `json:"queued,omitempty"`
	Using     *history.Use        `json:"using,omitempty"` // told before Resume or Discard is called
	Used      *history.Use        `json:"used,omitempty"`
	Did       string              `json:"did,omitempty"`     // the ID of a job
	Calling   *history.Call       `json:"calling,omitempty"` // told before Do is called
	Called    *history.Call       `json:"called,omitempty"`
	Unkept    *history.Unkept     `json:"unkept,omitempty"`
	Resolving *history.Resolution `json:"resolving,omitempty"` // told before Resolve is called
	Failed    string              `json:"failed,omitempty"`    // the worker itself is broken
}

// Refusal is an acquire that came to nothing.
type Refusal struct {
	Key      string        `json:"key"`
	Asked    time.Duration `json:"asked"`
	Returned time.Duration `json:"returned"`
	Err      string        `json:"err"`
}

// Woke is what a holder that watches saw when it ran again after it had been
// stopped for longer than a third of the TTL.
type Woke struct {
	Key    string        `json:"key"`
	Valid  bool          `json:"valid"` // the first answer after the stop
	Asked  time.Duration `json:"asked"` // when that was
	Before time.Duration `json:"before"`
}
