package lockmw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
)

// How work goes on by a ticket, which another lease has issued (ticket.go). Resume is a claim as that of Acquire, but for this: it asks for a lock that
// is the ticket's, and so it stands in no queue. What it waits for is that the issuer hands the lock on.

// Resume goes on with the work for which ticket was issued (Lease.Ticket), in whichever process. It returns a lease of the ticket's key, which has a
// new token and a higher fence, and is renewed like any lease. Resume comes before all who wait, because the lock was not free in between. A ticket
// works once.
//
// If the lock was not handed on yet, Resume asks again and again, as p's Wait and Retries say. If that is not enough, or p has neither, it returns
// ErrNotAcquired, and the ticket stays good. After ErrUnavailable, or if ctx ended, the ticket is spent if Redis has carried out a command of the call,
// or does so late: what that took is removed in the background. Otherwise the ticket stays good for its time. Another Resume finds out. ctx is the parent
// of the lease's context, and bounds the wait, as for Acquire.
//
// ErrTicketSpent says that there is nothing to go on with. Most queues give a job to a worker more than once. With such a queue, do this:
//
//	func goOn(ctx context.Context, ticket, key string) (context.Context, *lockmw.Lease, error) {
//		p := lockmw.Policy{Wait: 10 * time.Second}
//		resumed, lease, err := locks.Resume(ctx, ticket, p)
//		if errors.Is(err, lockmw.ErrTicketSpent) {
//			return locks.Acquire(ctx, key, p)
//		}
//		return resumed, lease, err
//	}
//
// The policy has to wait, because another worker may have resumed by the same ticket, and may still be at work.
//
// p is a policy as Acquire takes it, for a mutex. The key is that of the ticket, and must begin with p.Prefix: if it does not, the error Is
// ErrInvalidPolicy. The error Is the same for a policy with MinHold, Permits, Mode: Shared, Reentrant, FailOpen or Shadow, and on a quorum. Live
// settings do not put Resume in shadow, and do not make it run without the lock. The other errors are ErrInvalidTicket (also for a ticket of another
// namespace), ErrReentrant (if ctx has the lock already) and ErrClosed. All errors are *AcquireError.
func (l *Locker) Resume(ctx context.Context, ticket string, p Policy) (context.Context, *Lease, error) {
	l.adjust(&p, forResume)
	c, err := l.newResume(ctx, ticket, p)
	if err != nil {
		return ctx, nil, c.refused(err)
	}
	lease, err := c.acquire()
	c.tell(lease)
	return under(ctx, lease, err)
}

// Discard lets go of the lock that was handed on to ticket, for a job that will not run. The next who waits then has it. If Discard returns nil, the
// ticket gives nobody the lock any more. It also returns nil for a ticket that was spent before. Whoever has resumed with the ticket keeps the lock.
//
// If the issuer is still at work, Discard waits until it has handed the lock on, for as long as ctx goes on. The issuer's own Locker does not wait:
// the issuer's release then gives the lock back, as without a ticket. While Redis is away Discard waits, too. So give ctx a deadline. If the process
// dies in Discard, or Redis does not let it give the lock back, nobody has the lock for 5 s at most.
//
// The error Is ErrInvalidTicket, ErrUnavailable, ErrClosed, or ErrNotAcquired and ctx's error; on a quorum it Is ErrInvalidPolicy. After an error the
// ticket may still be good, and Discard may be called again.
func (l *Locker) Discard(ctx context.Context, ticket string) error {
	// The lock is taken by the ticket, and released: so an issuer that is late is waited for, and a reply that is lost is
	// no matter. The observers hear of neither.
	c, err := l.newResume(valueless{ctx}, ticket, Policy{Name: "lockmw.Discard", Retries: Forever, TTL: discardTTL})
	if err == nil {
		for _, t := range l.tenuresOf(c.ref.Key) {
			if t.voidTicket(c.ticket.Token) {
				return nil
			}
		}
		var lease *Lease
		if lease, err = c.acquire(); err == nil {
			err = lease.releaseWithin(context.WithoutCancel(ctx))
		}
	}
	if err == nil || errors.Is(err, ErrTicketSpent) || errors.Is(err, ErrLost) { // lost by whom it was taken from the ticket
		return nil
	}
	return fmt.Errorf("lockmw: discard: %w", err)
}

// discardTTL is for how long a process that dies in Discard keeps the lock. Nothing is done under it.
const discardTTL = 5 * time.Second

// A valueless context has no lease in it: Discard is no work under one.
type valueless struct{ context.Context } //nolint:containedctx // it is one

// Value returns nil.
func (valueless) Value(any) any { return nil }

// newResume returns the claim of a Resume by p, and what is wrong with it.
func (l *Locker) newResume(ctx context.Context, ticket string, p Policy) (claim, error) {
	t, err := readTicket(ticket)
	key, prefixed := strings.CutPrefix(t.key, p.Prefix)
	if err != nil || !prefixed {
		key = ""
	}
	c := l.newClaim(ctx, key, p, time.Now(), nil)
	c.ticket = &store.Ticket{Token: t.token, Issuer: t.issuer}
	switch {
	case err != nil:
	case t.namespace != l.namespace:
		err = fmt.Errorf("%w: it is of namespace %q, and this Locker is of %q", ErrInvalidTicket, t.namespace, l.namespace)
	case !prefixed:
		err = badPolicy("Prefix", "%q: the ticket is for %q, which does not begin with it", p.Prefix, t.key)
	case !l.store.Queues():
		err = badPolicy("Resume", "a quorum hands no lock on")
	case p.Mode == Shared, p.Permits > 0:
		err = badPolicy("Mode", "Resume with Shared or Permits: a ticket is for one holder")
	case p.MinHold > 0:
		err = badPolicy("MinHold", "Resume with MinHold: the work was begun before; leave it out")
	case p.Reentrant:
		err = badPolicy("Reentrant", "Resume joins no other lease: leave it out")
	case p.FailOpen:
		err = badPolicy("FailOpen", "Resume runs no work without its lock: whether others go on with it by the same ticket would not be known; leave it out")
	case p.Shadow:
		err = badPolicy("Shadow", "Resume has no forecast: leave it out")
	}
	return c, err
}

// errNotHandedOn: the ticket is good, as far as is known.
var errNotHandedOn = fmt.Errorf("%w: its holder has not handed it on yet", ErrNotAcquired)

// errMaySpend: a command that was not answered may spend the ticket.
var errMaySpend = fmt.Errorf("%w: a command was not answered, and may spend the ticket", ErrUnavailable)

// resume has the life of a claim that asks by a ticket. All its commands have one token, so that each may be repeated.
func (c *claim) resume() (*Lease, error) {
	c.ref.Token = c.newToken()
	retries := new(retry.Intervals)
	retries.Begin(c.policy.Retries, c.policy.RetryInterval, time.Now())
	for final := !c.policy.waits(); ; {
		switch p := c.prospect(); c.outlook(p) {
		case refuses, opens:
			return c.unreachable(p)
		case holdsBack:
			c.heldBack = true
		case asks:
			o := c.send(store.Request{Join: store.Try})
			if o.why == noAnswer && c.fault.Stale {
				o = c.send(store.Request{Join: store.Try})
			}
			switch {
			case o.ends():
				return o.lease, o.err
			case c.spent:
				c.withdraw() // of an earlier command
				return nil, ErrTicketSpent
			}
		}
		if final {
			switch p := c.prospect(); {
			case c.fault != nil:
				return c.unavailable()
			case p.Reach != outage.Reachable: // it may not even have been asked
				return c.unreachable(p)
			}
			doubt := c.residue == inDoubt
			c.withdraw()
			if doubt { // an earlier command may take the lock yet, and is undone then
				return nil, errMaySpend
			}
			return nil, errNotHandedOn
		}
		var err error
		if final, err = c.pauses(retries); err != nil {
			c.withdraw()
			return nil, err
		}
	}
}

// pauses waits until the claim is to ask again, and reports whether that is for the last time. The error ends it before. Nobody tells it that the issuer
// has handed the lock on, or that Redis is away, so it asks as often as the asker of a queue does.
func (c *claim) pauses(retries *retry.Intervals) (final bool, err error) {
	if c.queuedAt.IsZero() {
		c.queuedAt = time.Now() // it waits, and is refused as one that has waited
	}
	t := time.Now()
	wake, final := retries.After(t)
	if latest := t.Add(pollAtMost); latest.Before(wake) {
		wake, final = latest, false
	}
	if soonest := t.Add(faultPause); c.fault != nil && wake.Before(soonest) && !final {
		wake = soonest
	}
	if c.policy.Wait > 0 {
		if end := c.start.Add(c.policy.Wait); !end.After(wake) {
			wake, final = end, true
		}
	}
	timer := time.NewTimer(wake.Sub(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return final, nil
	case <-c.ctx.Done():
		return false, c.gaveUp()
	case <-c.locker.closing:
		return false, ErrClosed
	}
}
