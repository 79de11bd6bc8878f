package lockmw

import (
	"context"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// One call of Acquire is a claim. It goes this way, from top to bottom of this file:
//
//   - acquire refuses a claim that gets no lease. All else is in try, which finds the mistakes that need no command (check), or the
//     lease of the caller's own that the claim joins;
//   - run has a claim whose policy lets it wait join the queue of the Locker's waiters, and sends the first command, unless
//     a lease or another waiter of the Locker sees to its turn, or Redis cannot be reached. Most claims end with the reply: Redis has granted the lock, or others hold it and the
//     policy does not wait;
//   - otherwise wait (wait.go) goes on: for a grant, or until the claim has to ask again;
//   - end.go makes a lease of the grant, or removes what a claim that gets none has left in Redis. outage.go has what becomes
//     of a claim whose command gets no answer, or whose Redis cannot be reached.
//
// Each step returns an outcome: the claim's end, or why it goes on.

// Acquire takes the lock of p.Prefix+key and returns a lease for it. The Locker renews the
// lock, after about a third of the TTL each time, until the lease is released.
//
// Acquire also returns the lease's context, for the work under the lock. It ends before the
// lock can pass to somebody else. FromContext finds the lease in it, and a nested Acquire
// of the same key knows from it that the key is held. So assign it to the variable that ctx
// came from. After an error, the returned context is ctx itself, and the lease is nil.
//
// Acquire waits as p says, in the order in which callers came, over all processes. ctx
// bounds the wait and is the parent of the lease's context. The end of ctx does not release
// the lease: call Release. key is 1 to 512 bytes without braces and control characters.
//
// The error is an *AcquireError and Is one of ErrNotAcquired, ErrQueueFull, ErrUnavailable,
// ErrInvalidKey, ErrInvalidPolicy, ErrReentrant and ErrClosed. When ctx ends the wait,
// Acquire returns at once, and the error Is ErrNotAcquired and ctx's error. If ctx's
// deadline has passed, and Redis had refused or had not answered for 250 ms, the error Is
// ErrUnavailable in the place of ErrNotAcquired. After an error, whatever the call has left
// in Redis is removed in the background within moments.
//
// Once Redis has been out of reach for a second, calls are refused with ErrUnavailable
// within 250 ms. So are those that wait already, however long they might still wait. The
// second begins with the first command of the Locker that finds nobody there or gets no
// answer. If all calls of the Locker wait, that may be up to 800 ms after Redis went away.
// There are two exceptions. A policy with Retries: Forever and no Wait goes on waiting
// until Redis is back. One with FailOpen runs without the lock, see Policy.FailOpen. A call
// that may wait for a second waits through a shorter outage, such as a restart.
func (l *Locker) Acquire(ctx context.Context, key string, p Policy) (context.Context, *Lease, error) {
	lease, err := l.acquire(ctx, key, p)
	return under(ctx, lease, err)
}

// under returns what Acquire does, for a lease that was asked for with ctx.
func under(ctx context.Context, lease *Lease, err error) (context.Context, *Lease, error) {
	if err != nil {
		return ctx, nil, err
	}
	return lease.Context(), lease, nil
}

// acquire is Acquire, but for the context.
func (l *Locker) acquire(ctx context.Context, key string, p Policy) (*Lease, error) {
	off := l.adjust(&p, forAcquire)
	return l.acquireAs(ctx, key, p, off)
}

// adjust makes of p what live settings say, for one call. off says that its work runs without a lock.
func (l *Locker) adjust(p *Policy, use use) (off bool) {
	return l.settings != nil && l.settings.adjust(p, use)
}

// acquireAs is acquire with a policy of which live settings have been asked.
func (l *Locker) acquireAs(ctx context.Context, key string, p Policy, off bool) (*Lease, error) {
	if p.Shadow && !off {
		return l.acquireShadow(ctx, p, key)
	}
	c := l.newClaim(ctx, key, p, time.Now(), nil)
	c.off = off
	lease, err := c.acquire()
	c.tell(lease)
	return lease, err
}

// acquire is Locker.Acquire, but for what the observers are told, see tell.
func (c *claim) acquire() (*Lease, error) {
	lease, err := c.try()
	if err != nil {
		return nil, c.refuse(err)
	}
	return lease, nil
}

// try is acquire, but for the refusal: its error says why there is no lease.
func (c *claim) try() (*Lease, error) {
	l := c.locker
	outer, err := c.check()
	if err != nil {
		return nil, err
	}
	if outer != nil {
		return outer.join(c), nil
	}
	if c.residue == noResidue { // otherwise it has written its note, and Close waits for it (multi.go), but not for a note
		c.writeNote()
	}
	if !c.enter() {
		return nil, ErrClosed
	}
	defer c.ledger.calls.Done()
	if c.off {
		return c.switchedOff(), nil
	}
	l.checkOnce.Do(l.checkServer)

	returned := false
	defer func() {
		if !returned { // the caller's context has panicked, or the store: nobody gets a lease
			c.withdraw()
		}
	}()
	lease, err := c.run()
	returned = true
	return lease, err
}

// check finds the mistakes that need no command to Redis, and the lease that
// the claim joins, if there is one.
func (c *claim) check() (outer *Lease, err error) {
	if err := c.locker.Validate(c.given); err != nil {
		return nil, err
	}
	if err := c.validateKey(); err != nil {
		return nil, err
	}
	outer, shadowed := c.locker.heldBy(c.ctx, c.ref.Key)
	if c.once && outer != nil && outer.runsWithout() { // it keeps nobody else from the job
		outer = nil
	}
	if outer != nil && (!c.given.Reentrant || !outer.covers(c.ref.Kind)) {
		c.seen = sightingOf(outer)
		return nil, ErrReentrant
	}
	if c.ctx.Err() != nil {
		return nil, c.gaveUp()
	}
	if outer == nil && shadowed != nil {
		shadowed.inShadow().nested(c)
	}
	return outer, nil
}

// validateKey checks the key. That of a ticket has a prefix of which it need not know.
func (c *claim) validateKey() error {
	if c.ticket != nil {
		return validateName(c.ref.Key)
	}
	return validateKey(c.key)
}

// run has the claim's life: its first command, if it needs one now, and the wait if that is allowed.
func (c *claim) run() (*Lease, error) {
	if c.ticket != nil {
		return c.resume()
	}
	p := c.glance()
	how := c.outlook(p)
	if how == opens || how == refuses {
		return c.unreachable(p)
	}
	join, place := store.Try, store.Place{}
	if c.policy.waits() {
		if joined := c.locker.waiters.Join(c.ref, waitqueue.Caller{Name: c.policy.Name, Note: c.noteText, Asks: c.recall != "" || c.residue != noResidue}, how != holdsBack); joined.Waiter != nil {
			c.waiter, join = joined.Waiter, store.Wait
			c.locker.subscriber.start()
			if joined.Rests {
				behind := tenureOf(joined.Holder)
				c.holderLeft = remains(behind)
				c.meets(behind)
				return c.wait(waitqueue.View{State: waitqueue.Resting})
			}
			c.noteToken(joined.Token)
			place.Behind = joined.Behind
			if c.recall != "" { // it may have waited behind another call
				place.Waited = c.waited()
			}
			if how == holdsBack {
				c.heldBack = true
				return c.wait(c.locker.waiters.Look(c.waiter))
			}
		}
	}
	if c.ref.Token == "" { // otherwise its waiter has one, or it has asked together with others (multi.go)
		c.ref.Token = c.newToken()
	}
	o := c.send(store.Request{Join: join, Place: place})
	if o.why == noAnswer && c.fault.Stale {
		// The server had closed the connection, as it does when it restarts.
		o = c.ask(join)
	}
	switch {
	case o.ends():
		return o.lease, o.err
	case c.waiter != nil:
		return c.wait(c.locker.waiters.Look(c.waiter))
	case o.why != lockHeld:
		return c.unavailable()
	}
	if c.residue == inDoubt {
		c.withdraw() // the first of two commands may yet be carried out
	}
	c.alsoWaiting = c.seen.waiting + c.locker.waiters.Resting(c.ref.Key)
	if c.policy.waits() { // Join had no room
		return nil, ErrQueueFull
	}
	return nil, errHeld
}

// ask sends a command: for a claim that waits, or again after a connection that the server had closed.
func (c *claim) ask(join store.Join) outcome {
	if c.waiter == nil {
		return c.send(store.Request{Join: join})
	}
	r := store.Request{Join: join}
	var token string
	var ok bool
	if join == store.Last {
		token, r.Place, r.Next, ok = c.locker.waiters.AskLast(c.waiter)
	} else {
		token, r.Place, ok = c.locker.waiters.Ask(c.waiter)
	}
	if !ok {
		return goesOn(grantWaits)
	}
	c.noteToken(token)
	if c.queuedAt.IsZero() && c.recall == "" { // its first command: it has not waited before
		r.Place.Waited = 0
	}
	return c.send(r)
}

// send sends one command, of which r says the Join and the places. Where the claim has a waiter, its queue knows already that a command is under way.
func (c *claim) send(r store.Request) outcome {
	l, join, next := c.locker, r.Join, r.Next
	ref := c.ref
	asked := time.Now()
	c.sent++
	session := l.subscriber.session()
	c.lastTimeout = c.timeout()
	if c.fault != nil && c.fault.Stale {
		c.lastTimeout = c.onceMore()
	}
	before, recovered := c.residue, c.fault != nil || c.heldBack
	moved := session != 0 && c.heardIn != 0 && session != c.heardIn // another server may answer, which does not know all places
	c.heldBack = false
	command := c.counts()
	known := false
	defer func() {
		if !known {
			c.lostTrack()
			c.brought(next, asked, store.Answer{}, errSlow)
		}
	}()
	r.Ref, r.Recall, r.Ticket, r.Until = ref, c.wanted(), c.ticket, asked.Add(c.lastTimeout)
	r.Again = c.answers > 0 || before != noResidue || recovered
	r.Late = func(a store.Answer, err error) {
		defer command.over()
		if err != nil {
			l.remove(ref, before.unanswered(store.AsError(err)))
		} else {
			l.remove(ref, before.answered(a.Granted || join == store.Wait))
		}
	}
	answer, err := l.store.Acquire(c.ctx, r)
	known = true
	c.brought(next, asked, answer, err)
	if err != nil {
		fault := store.AsError(err)
		c.ballot = fault.Ballot
		if !fault.Pending {
			command.over()
		}
		if err := c.failed(fault); err != nil {
			return ended(nil, err)
		}
		return goesOn(noAnswer)
	}
	answered := time.Now()
	command.over()
	c.fault, c.ballot = nil, answer.Ballot
	c.answers++
	c.residue = before.answered(answer.Granted || join == store.Wait)
	if answer.Recalled != nil {
		c.residue = before // it has no place any more, but may have been handed the lock
	}
	for sibling := range strings.FieldsSeq(answer.Siblings) {
		l.waiters.AskAgain(ref.Key, sibling) // if it waits, its grant's message was lost
	}
	own := waitqueue.Answer{Sent: asked, Clock: answer.Clock}
	if answer.Recalled != nil {
		return c.answered(answer.Recalled, own)
	}
	if answer.Granted {
		if answer.Unqueued {
			session = 0 // nobody will tell who waits, so the lock is not passed on here
		}
		return c.granted(grant{answer.Grant, promise{instantOf(asked), ref.TTL}, fromReply, session}, answered, &own)
	}
	c.holderLeft, c.seen, c.spent = answer.Left, newSighting(answer), answer.Spent
	c.freshToken()
	if c.waiter == nil {
		return goesOn(lockHeld)
	}
	own.Seen, own.Queued = c.seen, join == store.Wait && answer.Ballot == nil // a quorum has no queue
	if session != 0 {
		c.heardIn = session
	}
	first := l.waiters.Answered(c.waiter, own)
	if join == store.Wait && (answer.Fresh || (recovered || moved) && first) {
		// The store did not know the queue, or had forgotten it when a
		// command came through whose answer did not.
		l.waiters.AskOthers(c.waiter)
	}
	return goesOn(lockHeld)
}

// brought tells the next one, if there is one, what a claim's last command has come to for it.
func (c *claim) brought(next store.Waiter, sent time.Time, answer store.Answer, err error) {
	if next.Token == "" {
		return
	}
	outcome := waitqueue.WasNotHeld
	switch {
	case err != nil:
		outcome = waitqueue.WasUnanswered
	case answer.Placed:
		outcome = waitqueue.WasQueued
	}
	c.locker.offerEnded(waitqueue.OfferResult{To: next.Ref, Outcome: outcome, Sent: sent, Grant: store.Grant{Clock: answer.Clock}})
}
