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
	// ErrNotAcquired: others hold the lock, or Policy.MinHold keeps its key taken after work
	// that was done (AcquireError.CoolingDown), and the call has waited for as long as
	// its policy allows. Or the call's Wait was over before Redis had answered its
	// last command, although Redis can be reached and answers others, and either
	// Wait is below a second or Redis had answered this call before. When the
	// caller's context ended the wait, the error Is that context's error as well.
	ErrNotAcquired = errors.New("lockmw: lock not acquired")

	// ErrQueueFull: this Locker has as many waiters as it may have, see
	// WithMaxWaiters.
	ErrQueueFull = errors.New("lockmw: too many waiters")

	// ErrUnavailable: Redis could not be reached or refused. It wraps the
	// cause, and says since when Redis cannot be reached. On Release it means that
	// Redis has refused, or no answer came: the release is tried further in the background, and the
	// lock ends by its TTL, or its MinHold if that is longer, at the latest.
	ErrUnavailable = errors.New("lockmw: lock store unavailable")

	// ErrLost: the lease ended while it was held: Redis has forgotten the lock or
	// given it to somebody else, ForceRelease has taken it (the cause of the lease's context is a
	// *RevokedError then, where that is known), or no renewal came through in time. Somebody else may hold the lock. It is also what Release returns to work
	// from which Close has taken the lock.
	ErrLost = errors.New("lockmw: lock was lost")

	// ErrInvalidKey: the key is empty, too long, or has braces or control
	// characters; in a middleware, it cannot be derived from the request.
	ErrInvalidKey = errors.New("lockmw: invalid key")

	// ErrInvalidPolicy: the Policy contradicts itself, or asks for what this Locker or
	// this call cannot do, such as permits on a quorum or a Wait in Once. AcquireAll
	// without a key is one, too.
	ErrInvalidPolicy = errors.New("lockmw: invalid policy")

	// ErrReentrant: the context already holds this lock, so the call would wait
	// for itself. Policy.Reentrant allows such calls.
	ErrReentrant = errors.New("lockmw: lock is already held by this context")

	// ErrTicketSpent: Resume has found nothing to go on with. The ticket was used before, its time is over, or the lock was
	// never handed on to it, because the work before it failed or its lock was lost: nobody can tell these apart.
	ErrTicketSpent = errors.New("lockmw: ticket is spent")

	// ErrInvalidTicket: what Resume, Discard or CheckTicket got is no ticket of this namespace, or is not all of one; or it says why
	// Lease.Ticket could not issue one.
	ErrInvalidTicket = errors.New("lockmw: invalid ticket")

	// ErrClosed: Close was called on the Locker.
	ErrClosed = errors.New("lockmw: locker is closed")
)

// The other causes with which a lease's context ends, beside ErrLost and the
// cause of the parent.
var (
	// ErrMaxHold: the policy's MaxHold has passed. The lock is still held, until it
	// is released or what is left of its TTL is over.
	ErrMaxHold = errors.New("lockmw: lock was held for longer than MaxHold")

	// ErrReleased: the lease was released, by Release, by the end of WithLock's
	// function or by Close.
	ErrReleased = errors.New("lockmw: lock was released")
)

// An AcquireError says why there is no lease. Every error of Acquire, AcquireAll, Resume
// and Refuse is one, and so is every error with which WithLock, WithLocks, Wrap and Do do not run their
// function, unless an answer that is kept cannot be read. ErrLost, after it has run, is none.
type AcquireError struct {
	Name     string        // what the lock is called: the policy's Name, or its Prefix
	Key      string        // the policy's prefix and the key; of Refuse, the prefix alone
	Attempts int           // commands sent to Redis; 0 also for a call that waited behind others of its process
	Waited   time.Duration // from the call to the refusal
	Queued   bool          // it waited in the queue until then, and did not just try once

	// RetryAfter is when asking again makes sense, 0 if it does not. Where others
	// hold the lock or wait for it, it is as Policy.RetryAfter says; it is 1 s when
	// Redis is unavailable or the Locker is closed. With CoolingDown it is 0.
	RetryAfter time.Duration

	// CoolingDown is for how much longer Policy.MinHold keeps the key taken although nobody is
	// at work under it: all whose work it was have released it. It is there for ErrNotAcquired,
	// by Redis's last answer, and 0 where that is not so or not known. It is not known
	// where the work was done by a version of lockmw that does not note it, where it ended while a
	// Cluster moved the key's slot, of more than 64 readers or permits, and to a call that has
	// waited for work that was still going on when Redis was asked last.
	CoolingDown time.Duration

	// Holder is who held the lock, by Redis's last answer, which is at most a second
	// old. It is there for ErrNotAcquired, ErrQueueFull and ErrReentrant, and nil
	// where there is none (CoolingDown) or it is not known: where a quorum keeps the lock, and where a program holds it that
	// does not use lockmw. Where several hold the lock at the same time it is the one that has held it longest and
	// whose work is not over, if Redis has told.
	Holder *Holder

	// Waiting is how many others wait for the lock, as far as is known: 0 where Redis was not asked, or has not told.
	Waiting int

	// Votes are the answers of a quorum's nodes to the last attempt, in the order
	// in which NewQuorum got the nodes. Empty for a single Redis, and where there
	// was no attempt.
	Votes []Vote

	forAnswer bool // it is of a call of Do

	// Err is the reason. It Is one of this package's errors, except where Refuse was
	// given another one, which is a mistake of the program.
	Err error
}

// A Vote is how one node of a quorum answered.
type Vote struct {
	Node     string // its address
	Acquired bool   // it gave its vote, which has been taken back
	Err      error  // why it did not answer; nil without Acquired: it has given its vote to another holder
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

// Error names the key, what the lock is called (unless the key begins with that), the
// reason and how long was tried. It is meant for logs. Do not send it to a client, to
// whom it would show the key: RefusalOf says what a client is told.
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
