package lockmw

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The reasons for which a lock is refused or ends. Test for them with errors.Is. Details are in
// *AcquireError.
var (
	// ErrNotAcquired: the call may wait no longer, and others still hold the lock, or
	// Policy.MinHold keeps its key taken after work that was done (AcquireError.CoolingDown). From
	// Resume it also means that the lock was not handed on to the ticket yet.
	//
	// A call whose Wait was over before Redis had answered its last command gets it, too, if Redis
	// can be reached and answers others, and either Wait is below a second or Redis had answered
	// this call before. If the caller's context ended the wait, the error Is that context's error
	// as well.
	ErrNotAcquired = errors.New("lockmw: lock not acquired")

	// ErrQueueFull: this Locker has as many waiters as it may have, for the key or in total. See
	// WithMaxWaiters.
	ErrQueueFull = errors.New("lockmw: too many waiters")

	// ErrUnavailable: Redis could not be reached, or it refused. The error wraps the cause. Once
	// Redis is known to be away, its text says since when, and calls get it at once: a loop pauses
	// before it asks again. From Release it means that Redis has refused, or that no answer came.
	// The release is then tried further in the background, and the lock ends at the latest by its
	// TTL, or by its MinHold if that is longer.
	ErrUnavailable = errors.New("lockmw: lock store unavailable")

	// ErrLost: the lease ended while it was held, and somebody else may hold the lock. Redis has
	// forgotten the lock or given it to somebody else, no renewal came through in time, or
	// ForceRelease has taken the lock. In the last case the cause of the lease's context is a
	// *RevokedError, if that is known. Release also returns ErrLost to work from which Close has
	// taken the lock.
	ErrLost = errors.New("lockmw: lock was lost")

	// ErrInvalidKey: the key is empty, is too long, or has braces or control characters. In a
	// middleware it also means that the key cannot be derived from the request.
	ErrInvalidKey = errors.New("lockmw: invalid key")

	// ErrInvalidPolicy: the Policy contradicts itself, or asks for something that this Locker or
	// this call cannot do, such as permits on a quorum or a Wait in Once. AcquireAll also returns
	// it if it is called without a key.
	ErrInvalidPolicy = errors.New("lockmw: invalid policy")

	// ErrReentrant: the context already holds this lock, so the call would wait
	// for itself. Policy.Reentrant allows such calls.
	ErrReentrant = errors.New("lockmw: lock is already held by this context")

	// ErrTicketSpent: Resume has found nothing to go on with. The ticket was used before, its time
	// is over, or the lock was never handed on to it, because the work before it failed or lost the
	// lock. Nobody can tell these cases apart.
	ErrTicketSpent = errors.New("lockmw: ticket is spent")

	// ErrInvalidTicket: Resume, Discard or CheckTicket got a text that is not a ticket, or not a
	// whole one; or Resume or Discard got a ticket of another namespace; or Lease.Ticket could not
	// issue one. The error says which, and why.
	ErrInvalidTicket = errors.New("lockmw: invalid ticket")

	// ErrClosed: Close was called on the Locker.
	ErrClosed = errors.New("lockmw: locker is closed")
)

// The other causes with which a lease's context ends, beside ErrLost and the
// cause of the parent.
var (
	// ErrMaxHold: the policy's MaxHold has passed. The lock is still held until it is released, or
	// until what is left of its TTL is over.
	ErrMaxHold = errors.New("lockmw: lock was held for longer than MaxHold")

	// ErrReleased: the lease was released, by Release, by the end of WithLock's
	// function or by Close.
	ErrReleased = errors.New("lockmw: lock was released")
)

// An AcquireError says why there is no lease. Every error of Acquire, AcquireAll, Resume and Refuse
// is one. So is every error that WithLock, WithLocks, Wrap and Do return without running their
// function, unless Do cannot read the answer that is kept. An ErrLost after the function has run is
// not one.
type AcquireError struct {
	Name     string        // what the lock is called: the policy's Name, or its Prefix
	Key      string        // the policy's prefix and the key; from Refuse, the prefix alone
	Attempts int           // how many commands were sent to Redis; also 0 for a call that waited behind others of its process
	Waited   time.Duration // from the call to the refusal
	Queued   bool          // it waited in the queue until then, and did not just try once

	// RetryAfter is after how long it makes sense to ask again. 0 means that it does not. If others
	// hold the lock or wait for it, RetryAfter is as Policy.RetryAfter says. If Redis is
	// unavailable or the Locker is closed, it is 1 s. With CoolingDown it is 0.
	RetryAfter time.Duration

	// CoolingDown is for how much longer Policy.MinHold keeps the key taken although nobody is at
	// work under it any more: all who were at work have released it. It is set for ErrNotAcquired,
	// by Redis's last answer. It is 0 if the key does not cool down, or if that is not known. It is
	// not known if the work was done by a version of lockmw that does not note it, if the work
	// ended while a Cluster moved the key's slot, or if there were more than 64 readers or permits.
	// A call that has waited does not know it, either, if the work was still going on when Redis
	// was asked last.
	CoolingDown time.Duration

	// Holder is who held the lock, by Redis's last answer, which is at most a second old. It is set
	// for ErrNotAcquired, ErrQueueFull and ErrReentrant. If several hold the lock, it is the one
	// that has held it longest and whose work is not over, if Redis has told. It is nil if there is
	// no holder (CoolingDown), or if the holder is not known: if it is a program that does not use
	// lockmw, and mostly on a quorum.
	Holder *Holder

	// Waiting is how many others wait for the lock, as far as is known; 0 also if that is not
	// known.
	Waiting int

	// Votes are the answers of a quorum's nodes to the last attempt, in the order in which
	// NewQuorum got the nodes. It is empty for a single Redis, and if there was no attempt.
	Votes []Vote

	forAnswer bool // it is of a call of Do

	// Err is the reason. It Is one of this package's errors, unless Refuse was given another one,
	// which is a mistake of the program.
	Err error
}

// A Vote is how one node of a quorum answered.
type Vote struct {
	Node     string // its address
	Acquired bool   // it gave its vote, which was then taken back
	Err      error  // why it did not answer; if it is nil and Acquired is false, the vote went to another holder
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

// Error names the key, the reason and for how long the call tried. It also names what the lock is
// called, unless the key begins with that. It is meant for logs. Do not send it to a client,
// because it shows the key: RefusalOf says what a client is told.
func (e *AcquireError) Error() string {
	reason := strings.TrimPrefix(e.Err.Error(), "lockmw: ")
	lock := strconv.Quote(e.Key)
	if !strings.HasPrefix(e.Key, e.Name) {
		lock += " for " + strconv.Quote(e.Name)
	}
	if e.Attempts == 0 && !e.Queued {
		return fmt.Sprintf("lockmw: acquire %s: %s", lock, reason)
	}
	tried := "after " // it has waited behind others of its process, or for Redis to be back
	switch e.Attempts {
	case 0:
	case 1:
		tried = "1 attempt in "
	default:
		tried = strconv.Itoa(e.Attempts) + " attempts in "
	}
	votes := ""
	if len(e.Votes) > 0 && errors.Is(e.Err, ErrNotAcquired) && e.CoolingDown == 0 { // otherwise the reason has them, or they say the same
		votes = fmt.Sprintf(" %v", e.Votes)
	}
	return fmt.Sprintf("lockmw: acquire %s: %s%s (%s%v)", lock, reason, votes, tried, e.Waited.Round(time.Millisecond))
}

// Unwrap returns the reason.
func (e *AcquireError) Unwrap() error { return e.Err }

// errHeld: the one attempt found the lock held.
var errHeld = fmt.Errorf("%w: held by others", ErrNotAcquired)

var errUsedUp = fmt.Errorf("%w: held by others until the wait was over", ErrNotAcquired)

// errSlow: the lease would have been over before it began.
var errSlow = errors.New("the answer came too late for the TTL")

// errNotHeld: the store does not know the token as the holder.
var errNotHeld = errors.New("forgotten by Redis, or given to others")

var errExpired = errors.New("no renewal came through in time")
