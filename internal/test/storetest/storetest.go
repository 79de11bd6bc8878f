// Package storetest is the conformance suite of package store: what every
// Store promises, written once and run against each backend.
//
//	storetest.Run(t, storetest.Backend{New: newKeyspace, Queues: true, Notices: true, Fences: true, Permits: true})
//
// A backend says what it can do, and the tests of what it cannot do are left
// out. After each question the suite looks at what lies in Redis: a key
// without a TTL fails the test, whatever it was about.
//
// The tests are in holding.go, foreign.go, readers.go, strangers.go, stay.go and
// remove.go (every backend), queue.go, handover.go and turns.go (those with a queue),
// permits.go and mixtures.go (those with permits), fence.go (those with
// fences), and offer.go, places.go, record.go, ticket.go and async.go (those with a queue, which
// releases offer a lock to a waiter, and which send releases that nobody awaits); world.go and
// process.go are what they stand on.
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// A Backend is one implementation of store.Store.
type Backend struct {
	// New returns a keyspace for one test. It is empty and nobody else uses it.
	New func(tb testing.TB) Keyspace

	Queues  bool // waiters stand in line, of whichever kind; a release hands over and tells
	Notices bool // a release notices at once when nobody hears a waiter's process
	Fences  bool // grants carry fences
	Permits bool // several may hold permits. Not without Queues

	// Readers and writers exclude each other in every backend. Without Queues
	// they have no order: a stream of readers may keep a writer out.
}

// A Keyspace is where the stores of one test keep their locks.
type Keyspace struct {
	// Open returns a Store as one more process would open it. The suite
	// closes it.
	Open func(tb testing.TB) store.Store

	// Nodes are all the servers that keep a lock: one, or those of a quorum.
	// A Cluster counts as one.
	Nodes []redis.UniversalClient

	// Prefix begins all keys and channels of this keyspace and of no other one.
	// It holds no characters that Redis's patterns know.
	Prefix string

	// Key returns the key whose value is the token that holds a lock.
	Key func(lock string) string

	// Pass moves the nodes' clock, if that stands still otherwise: then the
	// suite does not depend on the speed of the machine. Nil: time passes.
	Pass func(d time.Duration)
}

type test struct {
	name string
	run  func(w *world)
}

// Run runs the tests that suit b, side by side.
func Run(t *testing.T, b Backend) {
	t.Helper()
	tests := slices.Concat(holding, foreign, readers, strangers, stays, removal)
	if b.Queues {
		tests = slices.Concat(tests, queue, handover, turns, leasts, removalQueues)
	}
	if b.Permits {
		tests = slices.Concat(tests, permits, mixtures)
	}
	if b.Queues && b.Notices {
		tests = append(tests, notices...)
	}
	if b.Fences {
		tests = append(tests, fences...)
	}
	if b.Fences && b.Queues {
		tests = append(tests, queueFences...)
	}
	if b.Fences && b.Permits {
		tests = append(tests, kindFences...)
	}
	if b.Fences && b.Queues {
		tests = slices.Concat(tests, offers, places, records, tickets, asyncs)
	}
	if b.Queues && b.Permits {
		tests = append(tests, permitOffers...)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newWorld(t, b.New(t)))
		})
	}
}
