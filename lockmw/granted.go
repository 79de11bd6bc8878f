package lockmw

import (
	"errors"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// A claim has its lock in one of two ways. Redis grants it, in an answer or a message: then a
// tenure begins, and its first lease with it (granted). Or another lease of this process
// passes on what Redis has granted to that one: then the tenure goes on with the claim's
// lease (succeed). Either may come too late to be of use.

// granted makes a lease of a grant that came at at, unless that was too late to be of
// use; then there is neither a lease nor an error. answer is the one that granted it, if
// it was one to the claim.
func (c *claim) granted(g grant, at time.Time, answer *waitqueue.Answer) (*Lease, error) {
	left := g.left(instantOf(at))
	if c.ctx.Err() != nil || left <= 0 {
		if c.waiter != nil && answer != nil {
			c.locker.waiters.Heard(c.waiter, *answer)
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
		c.locker.waiters.Drop(c.ref.Key, t)
		if t.isLost() {
			c.locker.forgetTenure(t)
		}
	}
	return c.begun(lease, left, g.published || g.named), nil
}

// succeed makes a lease of a lock that another lease of this process has passed on.
// Without an error and a lease, the lock was lost meanwhile.
func (c *claim) succeed(t *tenure, fence int64) (*Lease, error) {
	waiters, at := c.locker.waiters, time.Now()
	if c.ctx.Err() == nil {
		lease := c.successor(t, fence, at)
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

// successor returns the lease of a claim to which a lock was passed on. If the claim's context
// panics, the lock passes on to the next: the queue has let go of the claim, and does not do it.
func (c *claim) successor(t *tenure, fence int64, at time.Time) (lease *Lease) {
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
