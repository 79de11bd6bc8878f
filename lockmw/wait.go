package lockmw

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// How a claim waits for its turn (wait), and what it does while Redis cannot be reached (outlook). It waits for a grant, for
// a wake-up, for its timer, or for the end; only the first waiter of each process asks Redis again and again, for all.

const (
	// pollAtMost is the longest pause between two commands of the first of a
	// queue, whatever the policy's interval: it keeps the queue alive in the
	// store, and bounds what a lost wake-up costs. freshFor (sighting.go) and
	// ALIVE_US (lock.lua) are longer.
	pollAtMost = 800 * time.Millisecond

	// faultPause is the least pause after a command without an answer: many
	// waiters at short intervals must not storm a Redis that is down.
	faultPause = 100 * time.Millisecond

	// expirySlack is how long after the holder's TTL the command comes that
	// finds it expired.
	expirySlack = 2 * time.Millisecond

	// lookAhead is how far the others of a queue, who do not poll, sleep at
	// least when they look for the end of their retries.
	lookAhead = 250 * time.Millisecond

	// farAhead is how long they sleep when only others can end the wait.
	farAhead = time.Minute

	// restsFor is after how long a claim that rests looks whether it is the first of
	// its queue by now. Then it asks, so that others see that somebody waits.
	restsFor = pollAtMost / 2

	// lookAgain is how long a claim sleeps whose server cannot be reached: in a
	// Cluster its key may be served by another one by then.
	lookAgain = time.Second
)

// wait has the claim wait until it is granted or given up. Its first command is behind
// it, or spared. view is how it stands.
func (c *claim) wait(view waitqueue.View) (*Lease, error) {
	l, w := c.locker, c.waiter
	c.queuedAt = time.Now()
	if c.fault == nil && !c.heldBack {
		e := c.event(EventContended)
		e.Left = c.holderLeft
		c.contends(e)
	}
	asked := c.queuedAt
	retries := c.retries
	if retries == nil {
		retries = new(retry.Intervals)
	}
	retries.Begin(c.policy.Retries, c.policy.RetryInterval, asked)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ask := false; ; view = l.waiters.Look(w) {
		p := c.prospect()
		how := c.outlook(p)
		switch {
		case how == opens || how == refuses:
			return c.unreachable(p)
		case how == holdsBack:
			c.heldBack = c.heldBack || ask
		case ask || c.heldBack:
			asked = time.Now()
			if lease, err := c.ask(store.Wait); lease != nil || err != nil {
				return lease, err
			}
			view = l.waiters.Look(w)
		}
		ask = false
		next, final := c.next(retries, asked, p, view)
		timer.Reset(time.Until(next))
		select {
		case g := <-w.Grants:
			if lease, err := c.handedOver(g); lease != nil || err != nil {
				return lease, err
			}
			ask = true // the grant came too late, is of unknown age, or needs replicas: asking again gives a new one
		case <-p.Changed:
		case <-w.Wake:
			ask = w.MustAsk()
		case <-timer.C:
			if final {
				return c.last()
			}
			ask = c.polls(l.waiters.Look(w))
		case <-c.ctx.Done():
			c.giveBack()
			return nil, c.gaveUp()
		case <-l.closing:
			c.giveBack()
			return nil, ErrClosed
		}
	}
}

// polls reports whether the claim asks Redis by itself: for its whole queue, or since it
// does not know that it stands in Redis's queue, or since it has rested for a while and is
// the first.
func (c *claim) polls(view waitqueue.View) bool {
	return c.fault != nil || view.Asker || view.State == waitqueue.Resting && view.Front
}

// next is when the claim must do something by itself, and whether that is its
// end. asked is when it sent its last command; p is what is known of Redis.
func (c *claim) next(retries *retry.Intervals, asked time.Time, p outage.Prospect, view waitqueue.View) (at time.Time, final bool) {
	t := time.Now()
	if p.Reach == outage.Reachable && (c.fault != nil || view.Asker) {
		at, final = c.nextCommand(retries, asked, t, view)
	} else {
		at, final = t.Add(farAhead), false
		if c.policy.Retries > 0 && c.policy.Retries < Forever {
			at, final = retries.After(t.Add(lookAhead))
		}
		if again := c.looksAgain(t, p, view); again.Before(at) {
			at, final = again, false
		}
	}
	if c.policy.Wait > 0 {
		if end := c.start.Add(c.policy.Wait); !end.After(at) {
			at, final = end, true
		}
	}
	return at, final
}

// nextCommand is when a claim that polls asks Redis again, and whether it does not any
// more, since its retries are used up by then. t is now.
func (c *claim) nextCommand(retries *retry.Intervals, asked, t time.Time, view waitqueue.View) (at time.Time, final bool) {
	at, final = retries.After(t)
	if c.fault != nil {
		if soon := asked.Add(pollAtMost); soon.Before(at) {
			at, final = soon, false
		}
		if later := asked.Add(retry.Jitter(faultPause)); at.Before(later) && !final {
			at = later
		}
		return at, final
	}
	if soon := view.Asked.Add(pollAtMost); soon.Before(at) { // any command of the queue keeps it alive
		at, final = soon, false
	}
	if c.holderLeft > 0 {
		if expired := asked.Add(c.holderLeft + expirySlack); expired.Before(at) && expired.After(t) {
			at, final = expired, false
		}
	}
	return at, final
}

// looksAgain is when a claim that sends nothing has to look by itself at what is known of
// Redis, and at how it stands.
func (c *claim) looksAgain(t time.Time, p outage.Prospect, view waitqueue.View) time.Time {
	switch {
	case p.Reach != outage.Reachable:
	case view.State == waitqueue.Resting:
		return t.Add(retry.Jitter(restsFor))
	default:
		return t.Add(farAhead)
	}
	again := t.Add(lookAgain)
	if open := p.Since.Add(c.policy.opensAfter()); c.policy.FailOpen && open.Before(again) {
		return open
	}
	return again
}

// last is the claim's end at its deadline. It is one more command, which gives
// up the place in the queue; where one of the same process has the lock, there is
// no need to ask.
func (c *claim) last() (*Lease, error) {
	view, g := c.awaitOffer()
	p := c.prospect()
	if g != nil {
		if lease, err := c.handedOver(*g); lease != nil || err != nil {
			return lease, err
		}
	} else if p.Reach == outage.Reachable && view.Held && view.State != waitqueue.Offered && c.fault == nil {
		c.giveBack()
		return nil, errUsedUp
	}
	switch { // another command would overdraw the budget
	case p.Reach != outage.Reachable:
		return c.unreachable(p)
	case c.fault != nil && c.fault.Ambiguous && !c.fault.Stale:
		return c.unavailable()
	case c.attempts == 0 && view.Unanswered:
		c.giveBack()
		return nil, errNoAnswer(p)
	}
	lease, err := c.ask(store.Last)
	switch {
	case lease != nil || err != nil:
		return lease, err
	case c.fault != nil:
		return c.unavailable()
	}
	c.giveBack() // an earlier, unanswered command may yet enter the queue
	return nil, errUsedUp
}

// awaitOffer returns how the claim stands, and the grant if it has one. It waits a moment for
// the answer to a release that names the claim as the next one.
func (c *claim) awaitOffer() (waitqueue.View, *waitqueue.Grant) {
	ctx, cancel := context.WithTimeout(c.ctx, leastTimeout)
	defer cancel()
	for {
		view := c.locker.waiters.Look(c.waiter)
		select {
		case g := <-c.waiter.Grants:
			return view, &g
		default:
		}
		if view.State != waitqueue.Offered || ctx.Err() != nil {
			return view, nil
		}
		select {
		case g := <-c.waiter.Grants:
			return view, &g
		case <-c.waiter.Wake:
		case <-ctx.Done():
		}
	}
}

var errUsedUp = fmt.Errorf("%w: held by others until the wait was over", ErrNotAcquired)

// handedOver makes a lease of a grant that a release brought. Without an error
// and a lease, the grant is too old, its age unknown, or replicas are to confirm
// it: asking again does all that.
func (c *claim) handedOver(g waitqueue.Grant) (*Lease, error) {
	if g.Tenure != nil {
		return c.takeOver(tenureOf(g.Tenure), g.Fence)
	}
	c.noteToken(g.Token)
	if g.Published {
		g.Session = c.locker.subscriber.session()
	}
	if g.Since.IsZero() || c.locker.confirms {
		return nil, nil
	}
	from := fromRelease
	if g.Published {
		from = fromMessage
	}
	return c.granted(grant{
		fence: g.Fence, clock: g.Clock, since: instantOf(g.Since), ttl: g.TTL, origin: from, session: g.Session, contended: g.Contended,
	}, time.Now(), nil)
}

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
func (c *claim) outlook(p outage.Prospect) outlook {
	policy := c.policy
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

// opensAfter is how long the server must have been out of reach before a claim
// that waits runs without the lock. It is promised to run within its Wait, or
// within a second where that is shorter, so this is a tenth less.
func (p Policy) opensAfter() time.Duration {
	promised := opTimeout
	if p.Wait > 0 {
		promised = min(promised, p.Wait)
	}
	return promised - promised/10
}

// prospect returns what is known of the claim's server.
func (c *claim) prospect() outage.Prospect { return c.locker.outage.Prospect(c.ref.Key) }

// glance is prospect, at no cost while all servers can be reached.
func (c *claim) glance() outage.Prospect { return c.locker.outage.Glance(c.ref.Key) }

// errNoAnswer is the error of a claim whose wait ended before Redis had answered,
// though Redis can be reached as far as is known.
func errNoAnswer(p outage.Prospect) error {
	if p.Silence >= outage.SilentAfter {
		return fmt.Errorf("%w: no answer for %v", ErrUnavailable, p.Silence.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: the wait was over before Redis had answered", ErrNotAcquired)
}
