// Package outage knows whether the servers of a store can be reached. It knows that of
// each master of a Cluster by itself, because the keys of the others can be locked while
// one is dead; everywhere else there is one server. It learns it from what comes of
// every command (store.go, server.go) and from pings of its own (ping.go), and whoever is about to
// send a command asks it before. A server's reach is one of three, and these are the
// ways between them (reach.go):
//
//	             certainly away, or silent
//	reachable ----------------------------> suspected
//	 ^     ^                                    |
//	 |     |            answered                |
//	 |     +------------------------------------+
//	 |                                          | suspected for a second
//	 |             answered                     v
//	 +---------------------------------------- away
//
// A server is *certainly away* where a ping met store.Unreachable: nobody listens
// at its address, and it answers over no other connection either, or it says that it cannot
// serve yet. Where a command met that the server is in doubt, until a ping knows. It is *silent* where
// it has said nothing for SilentAfter while commands wait for answers, over any connection, and a ping on a
// connection of its own has waited for one answer for as long: one connection that hangs, or one
// slow script, is no silence, and neither is a caller who leaves early, a
// connection that takes several exchanges with a server far away, or a slow
// credentials provider. *Answered* means any reply to any command, other than
// those that say that the server cannot serve.
//
// While a server is not reachable it is pinged every pingEvery. Callers that may
// wait are to send nothing then, so that an outage costs no storm of commands; an
// answer lets them go on at once.
package outage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// An Outage is what is known of the servers of one store. All methods may be called by many at
// the same time.
type Outage struct {
	pinger store.Pinger
	back   func(Return) // a server that was not reachable is; called without a lock

	// troubled is how many servers are not reachable: while there are none,
	// whoever is about to send a command looks at nothing else.
	troubled atomic.Int32
	doubts   atomic.Int32 // servers of which a command says that they are away, and a ping has to confirm it

	ctx    context.Context // of pings
	cancel context.CancelFunc
	pings  sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*server
	stopped bool
	whole   server // of a store that has only one
}

// Watch returns a store that does what s does, and the Outage that is told what comes of
// every command of it. back is called, without a lock, when a server answers again that
// was not reachable. Close of the store ends the pings, waits for them, and closes s.
func Watch(s store.Store, back func(Return)) (store.Store, *Outage) {
	o := newOutage(s, back)
	return &watchedStore{s, o}, o
}

func newOutage(p store.Pinger, back func(Return)) *Outage {
	o := &Outage{pinger: p, back: back, servers: make(map[string]*server)}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	o.whole.outage = o
	return o
}

// A Return is the end of one server's outage.
type Return struct {
	Server string        // as store.Pinger names it: empty where there is one
	After  time.Duration // how long it was not reachable
	Told   bool          // Told was called meanwhile
}

// Told notes that the log says that the server that answers for key does not answer, so that it
// can say, too, when that is over. It changes nothing if the server answers.
func (o *Outage) Told(key string) {
	o.of(key).tell()
}

// A Prospect is what is known of a server at one moment.
type Prospect struct {
	Reach   Reach
	Since   time.Time       // it is not reachable since then; zero while it is
	Age     time.Duration   // since Since
	Cause   error           // what is known of why
	Silence time.Duration   // how long commands have been without an answer
	Doubted bool            // it is reachable, unless the ping that asks it finds out otherwise, within DoubtedFor
	Changed <-chan struct{} // closed when the reach changes, or the doubt ends
}

// Prospect returns what is known now of the server that answers for key.
func (o *Outage) Prospect(key string) Prospect {
	return o.of(key).prospect()
}

// Glance is Prospect, at no cost while all servers can be reached: then it says
// that alone, without Silence and Changed.
func (o *Outage) Glance(key string) Prospect {
	if o.troubled.Load() == 0 {
		return Prospect{}
	}
	return o.Prospect(key)
}

// Troubled reports whether a server cannot be reached, as far as is known, and is
// looked for: nobody does that once the Locker is closed.
func (o *Outage) Troubled() bool {
	if o.troubled.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.stopped
}

// Reaches reports whether all servers can be reached, as far as is known, and none is in doubt
// since a command was refused. It is true of a Locker that is closed, which asks them no more.
func (o *Outage) Reaches() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stopped || o.troubled.Load() == 0 && o.doubts.Load() == 0
}

// stop ends the pings and waits for them.
func (o *Outage) stop() {
	o.mu.Lock()
	o.stopped = true
	servers := []*server{&o.whole}
	for _, s := range o.servers {
		servers = append(servers, s)
	}
	o.mu.Unlock()
	o.cancel()
	for _, s := range servers {
		s.stop()
	}
	o.pings.Wait()
}

// of returns the server that answers for key.
func (o *Outage) of(key string) *server {
	name := o.pinger.Server(key)
	if name == "" {
		return &o.whole
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.servers[name]
	if s == nil {
		s = &server{outage: o, name: name, stopped: o.stopped}
		o.servers[name] = s
	}
	return s
}

// Err says since when the server cannot be reached, in words for the caller of a lock,
// and wraps the cause. It is for a server that is not reachable.
func (p Prospect) Err() error { return &awayError{p.Since, p.Age, p.Cause} }

// An awayError says since when a server is away, and wraps the cause.
type awayError struct {
	since time.Time
	age   time.Duration
	cause error
}

// Error says since when.
func (e *awayError) Error() string {
	return fmt.Sprintf("Redis cannot be reached since %s (for %v): %v",
		e.since.Format(time.RFC3339), e.age.Round(time.Millisecond), e.cause)
}

// Unwrap returns the cause.
func (e *awayError) Unwrap() error { return e.cause }
