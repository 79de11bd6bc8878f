package lockmw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/store"
)

// What a claim, which is one call of Acquire, does while its Redis cannot be reached (outlook), and what becomes of one whose
// command got no usable answer (failed): it goes on, ends with ErrUnavailable (unavailable, unreachable), or runs without the
// lock because the policy says so (failOpen).

// An outlook is what a claim does, by what is known of its server.
type outlook uint8

const (
	asks      outlook = iota // it may send a command
	holdsBack                // it waits for the server, and sends nothing
	opens                    // it runs without the lock
	refuses                  // it ends with ErrUnavailable
)

// outlook returns what the claim does. While the server is only suspected, a
// claim that has one attempt makes it, and one that waits holds back. Once the
// server is away nobody is kept waiting, except by a policy without any limit.
func (a *asked) outlook(p outage.Prospect) outlook {
	policy := a.policy
	switch {
	case p.Reach == outage.Reachable:
		return asks
	case policy.FailOpen && (p.Reach == outage.Away || policy.waits() && p.Age >= policy.opensAfter()):
		return opens
	case p.Reach == outage.Suspected && !policy.waits():
		return asks
	case p.Reach == outage.Away && (policy.Wait > 0 || policy.Retries < Forever):
		return refuses
	}
	return holdsBack
}

// failed notes a command without an answer. It returns the error of a claim that
// this ends.
func (c *claim) failed(fault *store.Error) error {
	if c.waiter != nil {
		c.locker.waiters.Unanswered(c.waiter)
	}
	switch {
	case fault.Pending: // whatever comes of it, its Late cleans up all
		c.residue = noResidue
	case fault.Ambiguous || c.ctx.Err() == nil: // otherwise it was not sent; Err, which is the caller's, may panic
		c.freshToken()
		c.residue = c.residue.unanswered(fault)
	}
	err := c.endedBy(fault)
	if err != nil {
		c.withdraw()
	}
	return err
}

// endedBy returns the error of a claim that ends with this fault, or nil: then the
// claim may go on. A command that its caller left, or that was not sent since ctx
// had ended, says nothing about Redis.
func (c *claim) endedBy(fault *store.Error) error {
	left := fault.Pending || !fault.Ambiguous || errors.Is(fault, context.Cause(c.ctx))
	if c.ctx.Err() == nil || !left {
		c.fault = fault
	}
	switch {
	case c.ctx.Err() != nil:
		return c.gaveUp()
	case fault.Permanent:
		return fmt.Errorf("%w: %w", ErrUnavailable, fault.Err)
	}
	return nil
}

// settled is prospect for a claim at its end. One that would run without the lock waits until it is known
// whether it may: that a connection was refused, or that a command was not answered, does not say that the
// server answers nobody.
func (a *asked) settled() outage.Prospect {
	p := a.prospect()
	if !a.policy.FailOpen || !p.Doubted {
		return p
	}
	timer := time.NewTimer(outage.DoubtedFor)
	defer timer.Stop()
	for p.Doubted {
		select {
		case <-p.Changed:
			p = a.prospect()
		case <-timer.C:
			return a.prospect()
		case <-a.ctx.Done():
			return p
		case <-a.locker.closing:
			return p
		}
	}
	return p
}

// unavailable ends a claim whose last command got no usable answer, for the
// reason in c.fault.
func (c *claim) unavailable() (*Lease, error) {
	p := c.settled()
	if p.Reach != outage.Reachable {
		return c.unreachable(p)
	}
	fault := c.fault
	c.withdraw()
	// A healthy server may need longer for a reply than a short Wait, or the rest of a longer one, allows. So such a silence
	// is no fault of Redis where the whole Wait was short, or Redis has answered this call before. Who asks by a ticket has to hear that it may be spent.
	cutShort := c.ticket == nil && fault.Evidence == store.Silent && c.policy.Wait > 0 && c.lastTimeout < opTimeout
	if cutShort && (c.policy.Wait < opTimeout || c.answers > 0 || c.reached) {
		return nil, errNoAnswer(p)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, fault.Err)
}

// errNoAnswer is the error of a claim whose wait ended before Redis had answered,
// though Redis can be reached as far as is known.
func errNoAnswer(p outage.Prospect) error {
	if p.Silence >= outage.DoubtAfter {
		return fmt.Errorf("%w: no answer for %v", ErrUnavailable, p.Silence.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: the wait was over before Redis had answered", ErrNotAcquired)
}

// unreachable ends a claim because Redis cannot be reached, as p says.
func (c *claim) unreachable(p outage.Prospect) (*Lease, error) {
	cause := p.Err()
	if c.fault != nil && p.Reach == outage.Suspected {
		cause = c.fault.Err // what it has met itself says more about a moment
	}
	c.withdraw()
	if c.policy.FailOpen {
		return c.failOpen(cause), nil
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, cause)
}

// without returns a lease that holds nothing.
func (c *claim) without(why nothing) *Lease {
	lease := newLease(c, why, new(sync.Mutex), 0, time.Now())
	c.locker.keep(lease)
	lease.limitHold()
	return lease
}

// switchedOff returns the lease of a claim whose work runs without the lock because a live setting says so. The log says
// that once a minute, see settingsKeeper.shout.
func (c *claim) switchedOff() *Lease {
	lease := c.without(nothing{off: true})
	c.note(c.event(EventSwitchedOff))
	return lease
}

// failOpen returns the lease of a claim whose work runs without the lock because of cause.
func (c *claim) failOpen(cause error) *Lease {
	lease := c.without(nothing{})
	c.locker.log.Warn("lockmw: work runs without its lock, since Redis cannot be reached and the policy has FailOpen", "name", c.policy.Name, "key", c.ref.Key, "error", cause)
	c.locker.outage.Told(c.ref.Key)
	e := c.event(EventFailedOpen)
	e.Err = cause
	c.note(e)
	c.locker.recent.Happened(c.incident(e))
	return lease
}
