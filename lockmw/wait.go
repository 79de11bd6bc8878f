package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// How a claim, which is one call of Acquire, waits for its turn: for a grant, for a wake-up, for its timer, or for the end. Of
// the waiters of a Locker for one key mostly one, the asker, asks Redis again and again, on behalf of all.

const (
	// pollAtMost is the longest pause between two commands of the asker of a
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

	// shortestSleep is for how long the others of a queue, who do not poll, sleep at
	// least where their retries bound the wait.
	shortestSleep = 250 * time.Millisecond

	// longestSleep is for how long they sleep where only others can end the wait.
	longestSleep = time.Minute

	// restsFor is after how long a claim that rests looks whether it is the first of
	// its queue by now. Then it asks, so that others see that somebody waits.
	restsFor = pollAtMost / 2

	// lookEvery is for how long a claim sleeps whose server cannot be reached: in a
	// Cluster its key may be served by another one by then.
	lookEvery = time.Second
)

// wait has the claim wait until it is granted or given up. Its first command is behind
// it, was not needed, or is held back. view is how it stands in the queue of this Locker.
func (c *claim) wait(view waitqueue.View) (*Lease, error) {
	l, w := c.locker, c.waiter
	c.queuedAt = time.Now()
	if c.fault == nil && !c.heldBack {
		if c.met == nil {
			c.meets(nil)
		}
		c.contends()
	}
	asked := c.queuedAt
	retries := c.retries
	if retries == nil {
		retries = new(retry.Intervals)
	}
	retries.Begin(c.policy.Retries, c.policy.RetryInterval, asked)
	timer := l.timers.take()
	defer l.timers.putBack(timer)
	for ask := false; ; view = l.waiters.Look(w) {
		p := c.prospect()
		how := c.outlook(p)
		switch {
		case how == opens || how == refuses:
			return c.unreachable(p)
		case how == holdsBack:
			c.heldBack = c.heldBack || ask
		case (ask || c.heldBack) && c.policy.Wait > 0 && c.waited() >= c.policy.Wait:
			return c.last() // Redis is back, and the time is over
		case ask || c.heldBack:
			asked = time.Now()
			if o := c.ask(store.Wait); o.ends() {
				return o.lease, o.err
			}
			view = l.waiters.Look(w)
		}
		ask = false
		wake, final := c.wakeTime(retries, asked, p, view)
		timer.Reset(time.Until(wake))
		select {
		case g := <-w.Grants:
			if o := c.handedOver(g); o.ends() {
				return o.lease, o.err
			}
			ask = true
		case <-p.Changed:
		case <-w.Wake:
			ask = w.MustAsk()
		case <-timer.C:
			if final {
				return c.last()
			}
			ask = c.polls(l.waiters.Look(w))
		case <-c.ctx.Done():
			c.withdraw()
			return nil, c.gaveUp()
		case <-l.closing:
			c.withdraw()
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

// wakeTime is when the claim must do something by itself, and whether that is its
// end. asked is when it sent its last command; p is what is known of Redis.
func (c *claim) wakeTime(retries *retry.Intervals, asked time.Time, p outage.Prospect, view waitqueue.View) (wake time.Time, final bool) {
	t := time.Now()
	if p.Reach == outage.Reachable && (c.fault != nil || view.Asker) {
		wake, final = c.nextPoll(retries, asked, t, view)
	} else {
		wake, final = t.Add(longestSleep), false
		if c.policy.Retries > 0 && c.policy.Retries < Forever {
			wake, final = retries.After(t.Add(shortestSleep))
		}
		if look := c.nextLook(t, p, view); look.Before(wake) {
			wake, final = look, false
		}
	}
	if c.policy.Wait > 0 {
		if end := c.start.Add(c.policy.Wait); !end.After(wake) {
			wake, final = end, true
		}
	}
	return wake, final
}

// nextPoll is when a claim that polls sends its next command, and whether that is its last
// one, since its retries are used up by then. t is now.
func (c *claim) nextPoll(retries *retry.Intervals, asked, t time.Time, view waitqueue.View) (poll time.Time, final bool) {
	poll, final = retries.After(t)
	if c.fault != nil {
		if soon := asked.Add(pollAtMost); soon.Before(poll) {
			poll, final = soon, false
		}
		if later := asked.Add(retry.Jitter(faultPause)); poll.Before(later) && !final {
			poll = later
		}
		return poll, final
	}
	if soon := view.Asked.Add(pollAtMost); soon.Before(poll) { // any command of the queue keeps it alive
		poll, final = soon, false
	}
	if c.holderLeft > 0 {
		if expired := asked.Add(c.holderLeft + expirySlack); expired.Before(poll) && expired.After(t) {
			poll, final = expired, false
		}
	}
	return poll, final
}

// nextLook is when a claim that sends nothing looks again at what is known of Redis, and
// at its own place in the queue. t is now.
func (c *claim) nextLook(t time.Time, p outage.Prospect, view waitqueue.View) time.Time {
	switch {
	case p.Reach != outage.Reachable:
	case view.State == waitqueue.Resting:
		return t.Add(retry.Jitter(restsFor))
	default:
		return t.Add(longestSleep)
	}
	look := t.Add(lookEvery)
	if open := p.Since.Add(c.policy.opensAfter()); c.policy.FailOpen && open.Before(look) {
		return open
	}
	return look
}

// last is the claim's end at its deadline. It is one more command, which gives
// up the place in the queue; where one of the same Locker has the lock, there is
// no need to ask.
func (c *claim) last() (*Lease, error) {
	view, g := c.awaitOffer()
	if g != nil { // before it is known how Redis is: that may take a moment, in which nobody would have the lock
		if o := c.handedOver(*g); o.ends() {
			return o.lease, o.err
		}
	}
	p := c.settled()
	if g == nil && p.Reach == outage.Reachable && view.HasHolder && view.State != waitqueue.Offered && c.fault == nil {
		c.withdraw()
		return nil, errUsedUp
	}
	switch { // another command would overdraw the budget
	case p.Reach != outage.Reachable:
		return c.unreachable(p)
	case c.fault != nil && (c.fault.Ambiguous && !c.fault.Stale || c.fault.Evidence == store.Silent && p.Doubted):
		return c.unavailable()
	case c.sent == 0 && view.Unanswered:
		c.withdraw()
		return nil, errNoAnswer(p)
	}
	o := c.ask(store.Last)
	switch {
	case o.ends():
		return o.lease, o.err
	case c.fault != nil:
		return c.unavailable()
	}
	c.withdraw() // an earlier, unanswered command may yet enter the queue
	return nil, errUsedUp
}

// awaitOffer returns the claim's place in the queue, and the grant if it has one. It waits a moment for
// the answer to a release that names the claim as the next one.
func (c *claim) awaitOffer() (waitqueue.View, *waitqueue.Grant) {
	timer := time.NewTimer(leastTimeout) // no context under the caller's: that may panic when a timer ends it
	defer timer.Stop()
	for over := false; ; {
		view := c.locker.waiters.Look(c.waiter)
		select {
		case g := <-c.waiter.Grants:
			return view, &g
		default:
		}
		if view.State != waitqueue.Offered || over || c.ctx.Err() != nil {
			return view, nil
		}
		select {
		case g := <-c.waiter.Grants:
			return view, &g
		case <-c.waiter.Wake:
		case <-timer.C:
			over = true
		case <-c.ctx.Done():
		}
	}
}

// handedOver makes a lease of a grant that lay in the waiter's Grants, if that is of use as it
// is: the lock was passed on, or offered by a release, or a message has told of it.
func (c *claim) handedOver(g waitqueue.Grant) outcome {
	if g.Tenure != nil {
		return c.takeOver(tenureOf(g.Tenure), g.Fence)
	}
	c.noteToken(g.Token)
	if g.Published {
		g.Session = c.locker.subscriber.session()
	}
	if g.Since.IsZero() || c.locker.confirms {
		return goesOn(grantUseless)
	}
	from := fromRelease
	if g.Published {
		from = fromMessage
	}
	return c.granted(grant{g.Grant, promise{instantOf(g.Since), g.TTL}, from, g.Session}, time.Now(), nil)
}
