package lockmw

import (
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// How a claim, which is one call of Acquire, ends: with a lease (granted, takeOver), or without one. Two other leases
// are made elsewhere: a part in another one (join, in reentrant.go), and one without the lock (failOpen, in outage.go).
//
// A claim has its lock in one of two ways. Redis grants it, in the reply to a command or in a message: then a tenure begins,
// and its first lease with it (granted). Or another lease of the Locker passes on what Redis has granted to that one: then
// the tenure goes on with the claim's lease (takeOver). Either may come too late to be of use. Whatever the claim's commands
// may have left in Redis (a residue) is removed in the background.

// granted makes a lease of a grant, unless that came too late to be of use. answer is the one
// to the claim's own command that granted it; nil: the grant came otherwise, or in the reply to a command for several keys.
func (c *claim) granted(g grant, came time.Time, answer *waitqueue.Answer) outcome {
	left := g.left(instantOf(came))
	c.looked = answer != nil
	if c.ctx.Err() != nil || left <= 0 {
		if c.waiter != nil && answer != nil {
			c.locker.waiters.Answered(c.waiter, *answer)
		}
		if c.ctx.Err() != nil {
			c.withdraw()
			return ended(nil, c.gaveUp())
		}
		c.residue = max(c.residue, certain)
		c.fault = &store.Error{Err: errSlow, Evidence: store.Answered}
		return goesOn(grantUseless)
	}
	t := newTenure(c, g, came)
	lease := t.newLease(c, g.Fence, came)
	t.begin(lease) // before the queue forgets the token: a message may come about it
	if c.waiter != nil {
		c.locker.waiters.Take(c.waiter, t, g.NextCame, answer)
		c.waiter = nil
	}
	if !t.isHeld() { // it ended before the queue knew it as the holder, so nobody there was told
		c.locker.waiters.ForgetHolder(c.ref.Key, t)
		if t.isLost() {
			c.locker.forgetTenure(t)
		}
	}
	return ended(c.begun(lease, left, g.origin != fromReply), nil)
}

// answered ends a claim of Do, for which a record was found in the place of the lock.
func (c *claim) answered(r *store.Recalled, own waitqueue.Answer) outcome {
	c.recalled, c.recalledSent = r, own.Sent
	if c.waiter != nil {
		c.locker.waiters.Answered(c.waiter, own)
	}
	c.withdraw()
	return ended(nil, nil)
}

// takeOver makes a lease of a lock that another lease of the Locker has passed on, unless
// the lock was lost meanwhile.
func (c *claim) takeOver(t *tenure, fence int64) outcome {
	waiters, taken := c.locker.waiters, time.Now()
	c.looked = false
	lease := c.nextLease(t, fence, taken)
	switch {
	case lease == nil:
		return ended(nil, c.gaveUp())
	case !t.take(lease):
		t.decline()
		lease.endContext(ErrLost)
		waiters.Return(c.waiter)
		return goesOn(grantUseless)
	}
	waiters.Free(c.waiter)
	c.waiter = nil
	c.withdraw() // what it has asked under a token of its own
	return ended(c.begun(lease, t.leftAt(taken), true), nil)
}

// nextLease returns the lease of a claim to which a lock was passed on, or nil if the claim's context has ended. Then, and also if
// that context, which is the caller's, panics, the lock is passed on to the next here: the queue does not know the claim any more.
func (c *claim) nextLease(t *tenure, fence int64, taken time.Time) (lease *Lease) {
	defer func() {
		if lease == nil {
			t.decline()
			c.locker.waiters.Free(c.waiter)
			c.waiter = nil
		}
	}()
	if c.ctx.Err() != nil {
		return nil
	}
	return t.newLease(c, fence, taken)
}

// begun has the observers be told of a lease that begins. left is how long it can be
// trusted. handedOver says that it came by another's release or a message, and not by the
// reply to a command of the claim.
func (c *claim) begun(lease *Lease, left time.Duration, handedOver bool) *Lease {
	c.learn(true)
	if len(c.locker.observers) == 0 {
		return lease
	}
	e := c.event(EventAcquired)
	e.Waited, e.Left, e.Holder = lease.start.Sub(c.start), left, c.met
	if handedOver {
		e.Kind = EventHandedOver
		c.note(e)
		e.Kind = EventAcquired
	}
	c.note(e)
	return lease
}

// leave takes the claim out of its queue, and notes what the answers to others there have told.
func (c *claim) leave() {
	left := c.locker.waiters.Leave(c.waiter)
	c.waiter = nil
	c.noteToken(left.Token)
	if left.Handed != nil { // just now
		tenureOf(left.Handed.Tenure).decline()
		return
	}
	if seen := sightingIn(left); seen.answered.After(c.seen.answered) {
		c.seen = seen
	}
	c.alsoWaiting = max(c.seen.waiting+left.Resting, left.Others)
	if s := left.State; s == waitqueue.Offered || s == waitqueue.Doubtful {
		c.residue = inDoubt
	} else if s == waitqueue.Queued || s == waitqueue.Served {
		c.residue = max(c.residue, certain)
	}
}

// withdraw ends the claim's wait, if it waits, and has everything removed that its
// commands may have left.
func (c *claim) withdraw() {
	if c.waiter != nil {
		c.leave()
	}
	c.locker.remove(c.ref, c.residue)
	c.residue = noResidue
}

// newLease returns c's lease with what it has since start. It guards itself by mu.
func newLease(c *claim, has holding, mu *sync.Mutex, fence int64, start time.Time) *Lease {
	l := &Lease{
		locker: c.locker, ref: c.ref, policy: c.policy, has: has, mu: mu, fence: fence, note: c.noteText, part: c.part, forAnswer: c.recall != "",
		start: start, tooLong: tooLong{stuckAt: stuckAfter * c.policy.TTL},
	}
	if parent := c.work; parent != nil {
		l.derive(parent)
	} else {
		l.derive(c.ctx)
	}
	return l
}

// newLease returns c's lease of the tenure's lock, which it has since start.
func (t *tenure) newLease(c *claim, fence int64, start time.Time) *Lease {
	l := newLease(c, t, &t.mu, fence, start)
	l.ref.Token, l.ref.Fence = t.ref.Token, fence
	return l
}
