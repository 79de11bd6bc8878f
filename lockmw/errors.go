package lockmw

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The reasons for which a lock is refused or ends. Test for them with
// errors.Is; details are in *AcquireError.
var (
	// ErrNotAcquired: others hold the lock and the policy's budget is used
	// up, or a Wait of less than a second was over before a server had
	// answered that serves others. When the caller's context ended the wait,
	// the error Is that context's error as well.
	ErrNotAcquired = errors.New("lockmw: lock not acquired")

	// ErrQueueFull: this Locker has as many waiters as it may have, see
	// WithMaxWaiters.
	ErrQueueFull = errors.New("lockmw: too many waiters")

	// ErrUnavailable: Redis could not be reached or refused. It wraps the
	// cause, and says since when Redis cannot be reached. On Release it means
	// that no answer came: the lock ends by its TTL.
	ErrUnavailable = errors.New("lockmw: lock store unavailable")

	// ErrLost: the lease ended while it was held. Somebody else may hold the
	// lock.
	ErrLost = errors.New("lockmw: lock was lost")

	// ErrInvalidKey: the key is empty, too long, or has braces or control
	// characters; in a door, it cannot be derived from the request.
	ErrInvalidKey = errors.New("lockmw: invalid key")

	// ErrInvalidPolicy: the Policy contradicts itself, or asks for something
	// this version does not have.
	ErrInvalidPolicy = errors.New("lockmw: invalid policy")

	// ErrReentrant: the context already holds this lock. Waiting for it would
	// last until the TTL ran out.
	ErrReentrant = errors.New("lockmw: lock is already held by this context")

	// ErrClosed: the Locker is closed.
	ErrClosed = errors.New("lockmw: locker is closed")
)

// The other causes with which a lease's context ends, beside ErrLost and the
// cause of the parent.
var (
	// ErrMaxHold: the policy's MaxHold has passed.
	ErrMaxHold = errors.New("lockmw: lock was held for longer than MaxHold")

	// ErrReleased: the lease was released.
	ErrReleased = errors.New("lockmw: lock was released")
)

// An AcquireError says why Acquire gave no lease. Every error of Acquire,
// AcquireAll and WithLock's own is one.
type AcquireError struct {
	Name     string        // what the lock is called: the policy's Name, or its Prefix
	Key      string        // the policy's prefix and the key
	Attempts int           // questions put to Redis; 0 also for one who stood in line behind others of its process
	Waited   time.Duration // from the call to the refusal
	Queued   bool          // it stood in line until then, and did not just try once

	// RetryAfter is when asking again makes sense, 0 if it does not. Where others
	// hold the lock or wait for it, it is as Policy.RetryAfter says; it is 1 s when
	// Redis is unavailable or the Locker is closed.
	RetryAfter time.Duration

	// Holder is who held the lock when it was last heard of, at most a second ago.
	// It is nil where that is not known: where the refusal has another reason, where
	// several hold the lock together or a quorum keeps it, and where a program that
	// is not ours has it.
	Holder *Holder

	// Votes are the answers of a quorum's nodes to the last question, in the
	// order in which NewQuorum got them. Empty for a single Redis, and where
	// no question was put.
	Votes []Vote

	Err error // Is one of this package's sentinels
}

// A Vote is how one node of a quorum answered.
type Vote struct {
	Node     string // its address
	Acquired bool   // it gave its vote, which has been taken back
	Err      error  // why it did not answer; nil and not Acquired: another holder has its vote
}

// String returns the vote in words, for logs.
func (v Vote) String() string {
	switch {
	case v.Acquired:
		return v.Node + ": acquired"
	case v.Err != nil:
		return v.Node + ": " + v.Err.Error()
	}
	return v.Node + ": held by another"
}

// Error names the key, what the lock is called unless the key begins so, the reason
// and how long was tried. It is meant for logs: it must not be sent to a client, who
// is told what RefusalOf says.
func (e *AcquireError) Error() string {
	reason := strings.TrimPrefix(e.Err.Error(), "lockmw: ")
	lock := strconv.Quote(e.Key)
	if !strings.HasPrefix(e.Key, e.Name) {
		lock += " for " + strconv.Quote(e.Name)
	}
	if e.Attempts == 0 && !e.Queued {
		return fmt.Sprintf("lockmw: acquire %s: %s", lock, reason)
	}
	tries := "attempts"
	if e.Attempts == 1 {
		tries = "attempt"
	}
	votes := ""
	if len(e.Votes) > 0 && errors.Is(e.Err, ErrNotAcquired) { // otherwise the reason has them
		votes = fmt.Sprintf(" %v", e.Votes)
	}
	return fmt.Sprintf("lockmw: acquire %s: %s%s (%d %s in %v)", lock, reason, votes, e.Attempts, tries, e.Waited.Round(time.Millisecond))
}

// Unwrap returns the reason.
func (e *AcquireError) Unwrap() error { return e.Err }
