package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// What Redis has promised, and for how long that can be relied on.

// A grant is the lock that the store has given, and what it promised.
type grant struct {
	store.Grant // its Clock may be later than the grant
	promise
	origin  origin // how the news of the grant came
	session uint64 // the subscription's session when the store was asked, or when its claim read the message: see subscriber.hasHeardSince
}

// A promise is that the store keeps the lock for a while.
type promise struct {
	since instant       // when the store set the TTL, or earlier
	ttl   time.Duration // how long it keeps the lock from then on
}

// An origin is how the news of a grant came.
type origin uint8

const (
	fromReply   origin = iota // in the reply to a command of its own claim, or to a renewal
	fromRelease               // in the reply to a release of this Locker, which offered the lock to the claim
	fromMessage               // in a message of a script; no command of the claim has confirmed it yet
)

// validity is how much of a TTL can be relied on: our clock and the store's
// may differ in rate (1 %) and in resolution (2 ms). Redis's own Redlock
// description has the same margin.
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// guard is how long before the end of its validity a lease's context ends,
// so that the work can stop before the lock passes on.
func guard(ttl time.Duration) time.Duration { return max(50*time.Millisecond, ttl/10) }

// left is how long from at on the work may go on: what is left of the validity, less the guard. A lease is trusted that
// long.
func (p promise) left(at instant) time.Duration {
	return validity(p.ttl) - guard(p.ttl) - at.since(p.since)
}
