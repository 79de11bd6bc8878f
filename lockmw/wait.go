package lockmw

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/store"
)

const (
	// pollAtLeast is how often the first of a line asks, whatever the
	// policy's interval: it keeps the line alive in the store, and bounds
	// what a lost wake-up costs.
	pollAtLeast = 800 * time.Millisecond

	// faultPause is the least pause after a question without an answer: many
	// waiters at short intervals must not storm a Redis that is down.
	faultPause = 100 * time.Millisecond

	// expirySlack is how long after the holder's TTL the question comes that
	// finds it expired.
	expirySlack = 2 * time.Millisecond

	// lookAhead is how far the others of a line, who do not poll, sleep at
	// least when they look for the end of their retries.
	lookAhead = 250 * time.Millisecond

	// farAhead is how long they sleep when only others can end the wait.
	farAhead = time.Minute

	// lookAgain is how long a claim sleeps whose server cannot be reached: in a
	// Cluster its key may be served by another one by then.
	lookAgain = time.Second
)

// wait has the claim stand in line until it is granted or given up. Its first
// question is behind it, or spared.
func (c *claim) wait() (*Lease, error) {
	l, w := c.locker, c.waiter
	c.stands = true
	if c.fault == nil && !c.heldBack {
		c.contends(Event{
			Kind: EventContended, Name: c.policy.Name, Prefix: c.policy.Prefix, Key: c.ref.Key,
			Waited: c.waited(), Attempts: c.attempts, Left: c.left,
		})
	}
	asked := time.Now()
	retries := c.retries
	if retries == nil {
		retries = new(pace)
	}
	retries.begin(c.policy, asked)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ask := false; ; {
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
		}
		ask = false
		next, final := c.next(retries, asked, p)
		timer.Reset(time.Until(next))
		select {
		case g := <-w.granted:
			if lease, err := c.handedOver(g); lease != nil || err != nil {
				return lease, err
			}
			ask = true // to have the full TTL count from now
		case <-p.changed:
		case <-w.wake:
			ask = w.ask.Swap(false)
		case <-timer.C:
			if final {
				return c.last()
			}
			ask = c.polls()
		case <-c.ctx.Done():
			c.giveBack()
			return nil, c.gaveUp()
		case <-l.closing:
			c.giveBack()
			return nil, ErrClosed
		}
	}
}

// polls reports whether the claim asks Redis by itself: it is the first of
// its line, or does not know that it stands in the queue.
func (c *claim) polls() bool {
	return c.fault != nil || c.locker.waiters.first(c.waiter)
}

// next is when the claim must do something by itself, and whether that is its
// end. asked is when it put its last question; p is what is known of Redis.
func (c *claim) next(retries *pace, asked time.Time, p prospect) (at time.Time, final bool) {
	t := time.Now()
	if p.reach == reachable && c.polls() {
		at, final = retries.after(t)
		line := asked // any question of the line keeps it alive
		if c.fault == nil {
			line = c.locker.waiters.asked(c.waiter)
		}
		if soon := line.Add(pollAtLeast); soon.Before(at) {
			at, final = soon, false
		}
		if c.fault == nil && c.left > 0 {
			if expired := asked.Add(c.left + expirySlack); expired.Before(at) && expired.After(t) {
				at, final = expired, false
			}
		}
		if c.fault != nil {
			if later := asked.Add(jitter(faultPause)); at.Before(later) && !final {
				at = later
			}
		}
	} else {
		at, final = t.Add(farAhead), false
		if c.policy.Retries > 0 && c.policy.Retries < Forever {
			at, final = retries.after(t.Add(lookAhead))
		}
		if again := c.looksAgain(t, p); again.Before(at) {
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

// looksAgain is when a claim that sends nothing has to look at what is known of
// Redis by itself.
func (c *claim) looksAgain(t time.Time, p prospect) time.Time {
	if p.reach == reachable {
		return t.Add(farAhead)
	}
	again := t.Add(lookAgain)
	if open := p.since.Add(c.policy.opensAfter()); c.policy.FailOpen && open.Before(again) {
		return open
	}
	return again
}

// last is the claim's end at its deadline. It is one more question, which gives
// up the place in the queue; where one of the same process has the lock, there is
// no need to ask.
func (c *claim) last() (*Lease, error) {
	how := c.settled()
	p := c.prospect()
	select {
	case g := <-c.waiter.granted:
		if lease, err := c.handedOver(g); lease != nil || err != nil {
			return lease, err
		}
	default:
		if p.reach == reachable && how == covered && c.fault == nil {
			c.giveBack()
			return nil, errUsedUp
		}
	}
	switch { // another question would overdraw the budget
	case p.reach != reachable:
		return c.unreachable(p)
	case c.fault != nil && c.fault.Ambiguous && !c.fault.Stale:
		return c.unavailable()
	case c.attempts == 0 && c.locker.waiters.unanswered(c.waiter):
		c.giveBack()
		return nil, p.unanswered()
	}
	lease, err := c.ask(store.Last)
	switch {
	case lease != nil || err != nil:
		return lease, err
	case c.fault != nil:
		return c.unavailable()
	}
	c.giveBack() // an earlier, unanswered question may yet enter the queue
	return nil, errUsedUp
}

// settled returns how the claim stands, and waits a moment for the answer to a
// release that passes the lock on to it.
func (c *claim) settled() standing {
	how := c.locker.waiters.standing(c.waiter)
	if how != offered {
		return how
	}
	ctx, cancel := context.WithTimeout(c.ctx, leastTimeout)
	defer cancel()
	for how == offered && ctx.Err() == nil {
		select {
		case g := <-c.waiter.granted:
			c.waiter.deliver(g) // it is the answer, for whoever asked how the claim stands
		case <-c.waiter.wake:
		case <-ctx.Done():
		}
		how = c.locker.waiters.standing(c.waiter)
	}
	return how
}

var errUsedUp = fmt.Errorf("%w: held by others until the wait was over", ErrNotAcquired)

// handedOver makes a lease of a grant that a release pushed. Without an error
// and a lease, the grant is too old, its age unknown, or replicas are to confirm
// it: asking again does all that.
func (c *claim) handedOver(g grant) (*Lease, error) {
	if g.vague || c.locker.confirms {
		return nil, nil
	}
	return c.granted(g, time.Now())
}
