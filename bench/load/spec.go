// Package load makes a measured load in this process: locks that are taken and
// given back, requests through a middleware, leases that are held, or what a library
// sends, without the library.
//
// Start at spec.go; turns.go is where turns are made and measured. leases.go holds
// locks, replay.go sends without the library, use.go says what a load has used.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/kit/bench/door"
	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/waits"
)

// A Spec says what one process does.
type Spec struct {
	Library    string        // one of library.Names
	Door       string        // one of door.Names: requests instead of locks. Empty: none
	Addr       string        // of Redis
	Goroutines int           // that take turns
	Lockers    int           // of the library, shared out among the goroutines. Zero means one
	Keys       Keys          // which keys they lock
	KeyCount   int           // of Zipf and Drawn
	Part       int           // the number of this process, so that own keys differ
	Hold       time.Duration // inside the lock
	Leases     int           // to be held, in the place of turns. Zero: turns
	TTL        time.Duration // of those leases
	Replay     int           // turns that are recorded, and then sent through one pipeline. Zero: turns that are taken
	Profile    string        // file for a CPU profile of the window. Empty: none
}

// Keys says how goroutines choose what they lock.
type Keys string

// The choices.
const (
	Own   Keys = "own"   // each goroutine has a key of its own
	New   Keys = "new"   // each turn has a key of its own, as in a service
	One   Keys = "one"   // all have the same
	Zipf  Keys = "zipf"  // few keys are drawn often, most are rare
	Drawn Keys = "drawn" // each key is drawn as often as the others
)

// A Window is when the load is measured. It runs before that, too, so that
// connections are open and queues are full.
type Window struct{ Begin, End time.Time }

// A Result is what was seen within the window.
type Result struct {
	Turns    int64         // begun
	Most     int64         // turns of one goroutine
	Fewest   int64         // likewise
	Waits    waits.Summary // from the question to the turn; through a middleware, the whole request
	Gaps     waits.Summary // from a release to the entry of one who waited for it; One only
	Held     time.Duration // all turns' time inside
	Errors   int64         // locks that were refused, not given back, or lost
	Error    string        // the first
	Allocs   int64         // heap objects
	CPU      time.Duration // of this process
	Commands int64         // sent by the client

	Connections int64 // to Redis: the most of one process at a time

	Goroutines int   // Leases only: the most that the library had
	Heap       int64 // Leases only: bytes
}

// Merge adds what another process saw in the same window.
func (r *Result) Merge(other Result) {
	r.Turns += other.Turns
	r.Most = max(r.Most, other.Most)
	r.Fewest = min(r.Fewest, other.Fewest)
	r.Waits.Merge(other.Waits)
	r.Gaps.Merge(other.Gaps)
	r.Held += other.Held
	r.Errors += other.Errors
	if r.Error == "" {
		r.Error = other.Error
	}
	r.Allocs += other.Allocs
	r.CPU += other.CPU
	r.Commands += other.Commands
	r.Connections = max(r.Connections, other.Connections)
	r.Goroutines += other.Goroutines
	r.Heap += other.Heap
}

// A Job is a load that is ready to start.
type Job interface {
	// Run makes the load until w ends, and returns when all of it is over. It
	// is called once.
	Run(ctx context.Context, w Window) (Result, error)

	// Close closes what the job has opened.
	Close() error
}

// Prepare opens what s needs. The caller closes the job.
func Prepare(ctx context.Context, s Spec) (Job, error) {
	wire := new(library.Wire)
	switch {
	case s.Leases > 0:
		return hold(ctx, s, wire)
	case s.Replay > 0:
		return record(ctx, s)
	}
	t := &turns{spec: s, wire: wire}
	for range max(s.Lockers, 1) {
		turner, err := open(s, wire)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.turners = append(t.turners, turner)
	}
	return t, nil
}

func open(s Spec, wire *library.Wire) (turner, error) {
	if s.Door != "" {
		d, err := door.Open(s.Door, s.Addr, wire)
		if err != nil {
			return nil, fmt.Errorf("door %s: %w", s.Door, err)
		}
		return throughDoor{d}, nil
	}
	l, err := library.Open(s.Library, s.Addr, wire)
	if err != nil {
		return nil, fmt.Errorf("library %s: %w", s.Library, err)
	}
	return locked{l}, nil
}

// A turner makes turns: it waits, calls inside, and gives back what it had.
type turner interface {
	turn(ctx context.Context, key string, inside func()) error
	Close() error
}

type locked struct{ library.Locker }

func (l locked) turn(ctx context.Context, key string, inside func()) error {
	unlock, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	inside()
	return unlock()
}

type throughDoor struct{ door.Door }

func (d throughDoor) turn(ctx context.Context, key string, inside func()) error {
	err := d.Request(ctx, key)
	if err == nil {
		inside()
	}
	return err
}
