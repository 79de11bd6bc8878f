package lockmw

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// unavailable ends a claim whose last command got no usable answer, for the
// reason in c.fault.
func (c *claim) unavailable() (*Lease, error) {
	p := c.prospect()
	if p.Reach != outage.Reachable {
		return c.unreachable(p)
	}
	fault := c.fault
	c.giveBack()
	if short := c.policy.Wait < opTimeout || c.answers > 0 || c.reached; fault.Reach == store.Silent && c.had < opTimeout && c.policy.Wait > 0 && short {
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
	c.locker.log.Warn("lockmw: runs without the lock, Redis cannot be reached", "name", c.policy.Name, "key", c.ref.Key, "error", cause)
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
	c.known(left.Token)
	if left.Handed != nil { // just now
		tenureOf(left.Handed.Tenure).decline()
		return
	}
	if seen := sightingIn(left); seen.at.After(c.seen.at) {
		c.seen = seen
	}
	c.others = max(c.seen.waiting+left.Resting, left.Others)
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
