package lockmw

import (
	"context"
	"fmt"
	"time"
)

// EventKind says what happened to a lock.
type EventKind uint8

const (
	// EventAcquired: a lease begins.
	EventAcquired EventKind = iota + 1
	// EventContended: others hold the lock, and the caller waits for it.
	EventContended
	// EventRefused: Acquire gives no lease, for the reason in Err.
	EventRefused
	// EventHandedOver: a waiter was handed the lock by its holder's release.
	// EventAcquired follows.
	EventHandedOver
	// EventRenewed: the lock has its full TTL again.
	EventRenewed
	// EventRenewalFailed: a renewal met the fault in Err. It is tried again
	// for as long as the lease can be trusted.
	EventRenewalFailed
	// EventLost: the lease ended while it was held.
	EventLost
	// EventStuck: the lease has been held for another ten TTLs, or, with
	// ErrMaxHold in Err, for longer than the policy allows.
	EventStuck
	// EventReleased: the lease was given back. Err says if that failed.
	EventReleased
	// EventFailedOpen: the work runs without the lock, because Redis cannot
	// be reached (Err) and the policy allows it.
	EventFailedOpen
)

var eventNames = [...]string{
	EventAcquired:      "acquired",
	EventContended:     "contended",
	EventRefused:       "refused",
	EventHandedOver:    "handed over",
	EventRenewed:       "renewed",
	EventRenewalFailed: "renewal failed",
	EventLost:          "lost",
	EventStuck:         "stuck",
	EventReleased:      "released",
	EventFailedOpen:    "failed open",
}

// String returns the kind in words, such as "handed over".
func (k EventKind) String() string {
	if k == 0 || int(k) >= len(eventNames) {
		return fmt.Sprintf("EventKind(%d)", uint8(k))
	}
	return eventNames[k]
}

// An Event tells an observer what happened to one lock. Label metrics by Kind
// and Prefix, never by Key: keys are without number, and often private.
type Event struct {
	Kind     EventKind
	Prefix   string        // the policy's
	Key      string        // prefix + key
	Waited   time.Duration // from the call of Acquire until it had an outcome
	Held     time.Duration // since the lease began; 0 before
	Attempts int           // questions that Acquire put to Redis; 0: none was needed so far
	Left     time.Duration // how long the lease can be trusted without a renewal; contended: what is left of the holder's TTL
	Err      error         // see the kinds
}

func (l *Locker) observe(ctx context.Context, e Event) {
	for _, observer := range l.observers {
		observer(ctx, e)
	}
}
