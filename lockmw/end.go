package lockmw

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// How a claim, which is one call of Acquire, ends: with a lease (granted, takeOver), with a lease that holds nothing because
// the policy fails open (failOpen), or without one (unavailable, giveBack).
//
// A claim has its lock in one of two ways. Redis grants it, in the reply to a command or in a message: then a tenure begins,
// and its first lease with it (granted). Or another lease of this process passes on what Redis has granted to that one: then
// the tenure goes on with the claim's lease (takeOver). Either may come too late to be of use. Whatever the claim's commands
// may have left in Redis (a residue) is removed in the background.

// granted makes a lease of a grant that came at at, unless that was too late to be of
// use; then there is neither a lease nor an error. answer is the one that granted it, if
// it was one to the claim.
func (c *claim) granted(g grant, at time.Time, answer *waitqueue.Answer) (*Lease, error) {
	left := g.left(instantOf(at))
	if c.ctx.Err() != nil || left <= 0 {
		if c.waiter != nil && answer != nil {
			c.locker.waiters.Answered(c.waiter, *answer)
		}
		if c.ctx.Err() != nil {
			c.giveBack()
			return nil, c.gaveUp()
		}
		c.residue = max(c.residue, certain)
		c.fault = &store.Error{Err: errSlow, Reach: store.Answered}
		return nil, nil
	}
	t := newTenure(c, g, at)
	lease := t.newLease(c, g.fence, at)
	t.begin(lease) // before the queue forgets the token: a message may come about it
	if c.waiter != nil {
		c.locker.waiters.Take(c.waiter, t, g.contended, answer)
		c.waiter = nil
	}
	if !t.renews() { // it has ended already, and found nobody to pass the lock to
		c.locker.waiters.ForgetHolder(c.ref.Key, t)
		if t.isLost() {
			c.locker.forgetTenure(t)
		}
	}
	return c.begun(lease, left, g.origin != fromReply), nil
}

// takeOver makes a lease of a lock that another lease of this process has passed on.
// Without an error and a lease, the lock was lost meanwhile.
func (c *claim) takeOver(t *tenure, fence int64) (*Lease, error) {
	waiters, at := c.locker.waiters, time.Now()
	if c.ctx.Err() == nil {
		lease := c.nextLease(t, fence, at)
		if t.take(lease) {
			waiters.Free(c.waiter)
			c.waiter = nil
			c.giveBack() // what it has asked under a token of its own
			return c.begun(lease, t.leftAt(at), true), nil
		}
		lease.cancel(ErrLost)
	}
	t.decline()
	if c.ctx.Err() != nil {
		waiters.Free(c.waiter)
		c.waiter = nil
		return nil, c.gaveUp()
	}
	waiters.Return(c.waiter)
	return nil, nil
}

// nextLease returns the lease of a claim to which a lock was passed on. If the claim's context
// panics, the lock passes on to the next: the queue has let go of the claim, and does not do it.
func (c *claim) nextLease(t *tenure, fence int64, at time.Time) (lease *Lease) {
	defer func() {
		if lease == nil {
			t.decline()
			c.locker.waiters.Free(c.waiter)
			c.waiter = nil
		}
	}()
	return t.newLease(c, fence, at)
}

// begun has the observers be told of a lease that begins. left is how long it can be
// trusted, and handedOver says that it is a waiter's.
func (c *claim) begun(lease *Lease, left time.Duration, handedOver bool) *Lease {
	c.learn(true)
	if len(c.locker.observers) == 0 {
		return lease
	}
	e := c.event(EventAcquired)
	e.Waited, e.Left = lease.start.Sub(c.start), left
	if handedOver {
		e.Kind = EventHandedOver
		c.note(e)
		e.Kind = EventAcquired
	}
	c.note(e)
	return lease
}

// errSlow: the lease would have been over before it began.
var errSlow = errors.New("the answer came too late for the TTL")

// unavailable ends a claim whose last command got no usable answer, for the
// reason in c.fault.
func (c *claim) unavailable() (*Lease, error) {
	p := c.prospect()
	if p.Reach != outage.Reachable {
		return c.unreachable(p)
	}
	fault := c.fault
	c.giveBack()
	if short := c.policy.Wait < opTimeout || c.answers > 0 || c.reached; fault.Reach == store.Silent && c.lastTimeout < opTimeout && c.policy.Wait > 0 && short {
		return nil, errNoAnswer(p) // the policy had less patience than a well server may need
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, fault.Err)
}

// unreachable ends a claim because Redis cannot be reached, as p says.
func (c *claim) unreachable(p outage.Prospect) (*Lease, error) {
	cause := p.Err()
	if c.fault != nil && p.Reach == outage.Suspected {
		cause = c.fault.Err // what it has met itself says more about a moment
	}
	c.giveBack()
	if c.policy.FailOpen {
		return c.failOpen(cause), nil
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, cause)
}

// failOpen returns a lease that holds nothing.
func (c *claim) failOpen(cause error) *Lease {
	lease := newLease(c, nothing{}, new(sync.Mutex), 0, time.Now())
	c.locker.keep(lease)
	lease.limitHold()
	c.locker.log.Warn("lockmw: work runs without its lock, since Redis cannot be reached and the policy has FailOpen", "name", c.policy.Name, "key", c.ref.Key, "error", cause)
	e := c.event(EventFailedOpen)
	e.Err = cause
	c.note(e)
	c.locker.recent.Happened(c.incident(e))
	return lease
}

// leave takes the claim out of its queue, and notes what others there have heard.
func (c *claim) leave() {
	left := c.locker.waiters.Leave(c.waiter)
	c.waiter = nil
	c.noteToken(left.Token)
	if left.Handed != nil { // just now
		tenureOf(left.Handed.Tenure).decline()
		return
	}
	if seen := sightingIn(left); seen.at.After(c.seen.at) {
		c.seen = seen
	}
	c.alsoWaiting = max(c.seen.waiting+left.Resting, left.Others)
	if s := left.State; s == waitqueue.Offered || s == waitqueue.Doubtful {
		c.residue = inDoubt
	} else if s == waitqueue.Queued || s == waitqueue.Served {
		c.residue = max(c.residue, certain)
	}
}

// giveBack ends the claim's wait, if it waits, and has everything removed that its
// commands may have left.
func (c *claim) giveBack() {
	if c.waiter != nil {
		c.leave()
	}
	c.locker.remove(c.ref, c.residue)
	c.residue = noResidue
}

// A residue is what the commands of a claim may have left in the store under its token: a
// place in the queue, or the lock.
type residue uint8

const (
	noResidue residue = iota

	// certain: something may lie there, and all commands about the token are answered. What
	// is removed does not come back.
	certain

	// inDoubt: a command was not answered and may still be carried out, so that something
	// may come to lie there later.
	inDoubt
)

// answered is the residue after another command, which was answered. stored says that by
// the answer something lies in the store now.
func (r residue) answered(stored bool) residue {
	switch {
	case r == inDoubt:
		return inDoubt
	case stored:
		return certain
	}
	return noResidue
}

// unanswered is the residue after another command, which ended with fault.
func (r residue) unanswered(fault *store.Error) residue {
	if fault.Ambiguous {
		return inDoubt
	}
	return r
}

// remove has the janitor remove a residue that ref may have in the store.
func (l *Locker) remove(ref store.Ref, r residue) {
	if r != noResidue {
		l.janitor.Add(ref, r == certain)
	}
}
