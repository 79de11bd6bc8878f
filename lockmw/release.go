package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// How a lease is released. Release ends the lease's context. Then what the lease has is given back: for a lock of its own that
// is a tenure (what the Locker holds in Redis under one token), which passes the lock on to the next waiter of the Locker,
// or gives it back to Redis. The other things that a lease may have are told of at holding, in lease.go.

// Release takes no longer than releaseBudget, of which a renewal that is in flight takes its part, since it is awaited
// first. It gives up sooner where the next pause would not fit: with tries that fail at once after about 0.64 s.
const (
	releaseTimeout = 400 * time.Millisecond // one try
	releaseBudget  = time.Second            // all tries
	releasePause   = 10 * time.Millisecond  // after the first failed try, then doubled
)

// errNoLease: there is nothing to release.
var errNoLease = fmt.Errorf("%w: there is no lease: look first at the error of Acquire", ErrLost)

// Release gives the lock back, to the next waiter if there is one. The lease's context ends first (cause
// ErrReleased). Then the lock passes to the next waiter of this Locker, or renewal stops and the lock goes back
// to Redis.
//
// Release returns nil when the lock was given back, also after MaxHold while the TTL lasts. It also returns nil
// where the policy failed open or is in shadow, or a setting says off. The error
//
//   - Is ErrLost when the lock was lost before, so that somebody else may have held it meanwhile, and when
//     Close has taken the lock from work that went on;
//   - Is ErrUnavailable when Redis has refused, or has not answered for about a second. The release is then
//     tried further in the background. At the latest, the lock ends by its TTL, or by its MinHold if that is
//     longer.
//
// If some locks of a lease of several keys were lost, the error Is ErrLost alone and names their keys.
//
// A lease that has issued a ticket hands the lock on to the ticket, and nil says that it did: see Ticket. After
// ErrUnavailable the ticket may have the lock for its own time, if this process dies before it has taken the
// lock back.
//
// With Policy.AsyncRelease, Release returns as soon as the release is on its way to Redis. It returns ErrLost
// if the lease knows that the lock was lost, and otherwise nil. See Policy.AsyncRelease for what that costs.
//
// Release uses only the values of ctx: it works just as well when ctx has ended. Later calls, from any
// goroutine, wait for the first, have no effect and return the same. A nil Lease gives nothing back, and the
// error Is ErrLost: the work ran without its lock, and nobody has kept it from running.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		return errNoLease
	}
	err := l.releaseWithin(context.WithoutCancel(ctx))
	l.tellReleased()
	return err
}

// MarkFailed says that the work under the lease has failed. It is called before Release. A ticket of the lease
// is void then, even one that Ticket returns later. The key does not stay taken for the policy's MinHold,
// unless the policy has MinHoldOnError. WithLock, WithLocks, Wrap, Once, the middlewares and the interceptors
// call MarkFailed by themselves, see Policy.MinHoldOnError. Leases that have joined this one, or that it has
// joined, keep the key taken for their own MinHold. After the release, and for a nil Lease, MarkFailed has no
// effect.
func (l *Lease) MarkFailed() {
	if l == nil {
		return
	}
	l.voidTicket()
	if l.policy.MinHold == 0 || l.policy.MinHoldOnError {
		return
	}
	if s := l.inShadow(); s != nil {
		s.failed.Store(true)
		return
	}
	owners := []*Lease{l.owner()}
	if b, several := l.has.(*bundle); several {
		owners = b.owners()
	}
	for _, owner := range owners {
		if t := owner.tenure(); t != nil {
			t.cancelStay(l)
		}
	}
}

// releaseWithin is Release, within ctx. It leaves the observers to tellReleased.
func (l *Lease) releaseWithin(ctx context.Context) error {
	l.releaseOnce.Do(func() { l.releaseErr = l.has.release(ctx, l) })
	return l.releaseErr
}

// release passes the lock on to the next waiter of the Locker, or gives it back to the store.
func (t *tenure) release(ctx context.Context, l *Lease) error {
	called := time.Now()
	defer l.locker.forget(l)
	t.holdsAt(instantOf(called), false) // a lease that is over was lost, though its timer may be late
	if !l.finish() {                    // reported when it happened
		l.locker.watchdog.RemoveNoWait(&t.renewal) // one in flight prolongs nothing that is removed
		return t.releaseLost(ctx, l, called)
	}
	var err error
	switch answer := l.toKeep().answer; {
	case answer != nil:
		err = t.giveBackKeeping(ctx, l, answer, called)
	case l.handing().Token != "":
		err = t.giveBack(ctx, l, called)
	case !l.handing().issued && t.passOn(called), t.giveBackAsync(l, called):
	default:
		err = t.giveBack(ctx, l, called)
	}
	switch {
	case errors.Is(err, ErrLost):
		l.reportLost(t.whyNotHeld())
		return err
	case err != nil:
		l.logUnreleased(err)
	default:
		l.locker.history.Add(l.policy.Name, l.fence, time.Since(l.start))
	}
	l.eventErr = err
	l.unreported.Store(true)
	return err
}

// logUnreleased logs why Redis has not given the lock back.
func (l *Lease) logUnreleased(err error) {
	l.locker.log.Warn("lockmw: release failed; it is tried again in the background, and the lock ends by its TTL or MinHold at the latest", "name", l.policy.Name, "key", l.ref.Key, "error", err)
}

// finish ends the lease's trust because it is released. It reports false if the lock was
// lost before.
func (l *Lease) finish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == lost {
		return false
	}
	l.end(released, ErrReleased)
	return true
}

// giveBack ends the tenure in the store, for a Release of l that was called then: the lock is free, or the next waiter's, or that of l's ticket.
func (t *tenure) giveBack(ctx context.Context, l *Lease, called time.Time) error {
	t.over()
	t.locker.watchdog.Remove(&t.renewal)
	defer t.forget()
	g := t.newGivingBack(ctx, called)
	g.ticket = l.handing().Ticket
	err := g.run()
	if err == nil && g.give.Ticket.Token != "" {
		l.mu.Lock()
		l.ticket.done = true
		l.mu.Unlock()
	}
	return err
}

// forget has the Locker forget a tenure that was given back.
func (t *tenure) forget() {
	if t.mayReturn { // a command of the claim may take the lock anew, behind this release. A second removal does no harm
		t.locker.janitor.AddAt(t.staysTill(), t.ref, false)
	}
	t.locker.forgetTenure(t)
}

// giveBackAsync is giveBack for a policy with AsyncRelease: it does not wait for the store, and Close does. It reports false
// where that cannot be, and the caller must give the lock back by giveBack.
//
// A release that keeps the key for its MinHold waits for a renewal that is in flight, in the background: carried out behind
// it that would prolong this in a Cluster that moves the key. It is announced, so that no later call for the key overtakes it. A
// renewal of what was given back does nothing. What goes wrong is seen to in the background, too.
func (t *tenure) giveBackAsync(l *Lease, called time.Time) bool {
	if !l.policy.AsyncRelease || !t.locker.store.Queues() {
		return false
	}
	led := t.locker.enter(t.ref.Key)
	if led == nil { // Close has begun, and waits for those that it has counted
		return false
	}
	t.over()
	a := &asyncGivingBack{givingBack: t.newGivingBack(context.Background(), called), lease: l, ledger: led}
	if landed := t.locker.watchdog.RemoveNoWait(&t.renewal); landed != nil && time.Now().Before(t.staysTill()) {
		a.announced = t.locker.store.Announce(t.ref.Key)
		go func() {
			<-landed
			a.beginNow()
			a.post()
		}()
		return true
	}
	a.post()
	return true
}

// An asyncGivingBack is one that nobody waits for but Close.
type asyncGivingBack struct {
	givingBack
	lease     *Lease
	ledger    *ledger // counts it
	announced func()  // ends the announcement to the store; nil: there was none
}

// beginNow has the first try count from now, since it could not be sent sooner, and gives it the time that a try has.
func (a *asyncGivingBack) beginNow() {
	a.sent = time.Now()
	if least := a.sent.Add(releaseTimeout); a.deadline.Before(least) {
		a.deadline = least
	}
}

// post sends the first try, and does not wait for what comes of it.
func (a *asyncGivingBack) post() {
	a.next()
	awaited := a.waits && a.give.Stay == 0 || a.announced != nil // who waits for what was announced does not read for it
	a.t.locker.store.ReleaseAsync(a.give, awaited, a.told)
}

// told takes in what came of the first try. It does not block: where more is to be done, or said, that is done aside.
func (a *asyncGivingBack) told(did store.Released, answer store.Answer, fault error) (over <-chan struct{}) {
	isOver, err := a.ended(did, answer, fault)
	if isOver && err == nil {
		a.end()
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer a.end()
		if !isOver {
			err = a.run()
		}
		close(done)
		switch {
		case errors.Is(err, ErrLost):
			a.lease.releaseOnce.Do(func() {})              // Release has returned,
			a.t.locker.reports.Later(a.lease.tellReleased) // and the observers hear of that first
			a.lease.reportLostAfter(0, a.t.whyNotHeld())
		case err != nil:
			a.lease.logUnreleased(err)
		}
	}()
	return done
}

func (a *asyncGivingBack) end() {
	a.t.forget()
	if a.announced != nil {
		a.announced()
	}
	a.ledger.calls.Done()
}

// A givingBack sends a tenure's release and repeats it until a reply comes or its time is over, which counts from when Release
// was called.
//
// A reply that is lost leaves open whether Redis has carried out the release. Sending it again does no harm: the scripts
// give back only what the token still has, so they cannot take the lock from a later holder, and a second run says "not
// held" (or, while MinHold keeps the key, the same again). After a try without a reply, "not held" is therefore taken for
// the success of that try, if the lease was trusted when it was sent; that Redis had forgotten the lock before cannot be
// told apart. Without such a try it is a loss. The second try is another command where the first one offered the lock to a
// waiter (see next): it is offered once.
//
// Where the reply is lost and Redis has carried the release out, these are told:
//
//   - the next waiter, if it is of another Locker: by a message, as always;
//   - one of this Locker to which the release offered the lock: it asks, see offerEnded;
//   - another one of this Locker, which Redis knew and would have named in the reply: the answer to the next command of the
//     asker names it (store.Answer.Siblings), and it is woken. AskFirst has the asker ask at once when a later try is answered;
//   - the caller, when no try is answered within the budget, or Redis refuses: ErrUnavailable, as the log and the observers.
//     The janitor then tries on for as long as this process lives. Should that die, the lock ends by its TTL or its MinHold.
type givingBack struct {
	t             *tenure
	ctx           context.Context // what commands are sent with; each is bounded, and does not end with it
	pauses        context.Context // ends those between tries
	deadline      time.Time
	pause         time.Duration // before the next try, after a failed one
	record        *store.Record // to be kept with the release; nil: there is none
	ticket        store.Ticket  // that is to have the lock; without a Token: none is
	maybeReleased bool          // a try without a reply may have been carried out
	notHeld       bool          // the last try has found nothing to release
	fault         *store.Error  // why the last try got no usable answer; nil: it was the first, and is not answered
	try
}

// A try is one command of a givingBack.
type try struct {
	give    store.Give
	sent    time.Time
	trusted bool   // the lease was, when it was sent
	waits   bool   // somebody of this Locker may wait for the lock
	session uint64 // the subscription's, when it was sent, where it offers the lock
}

func (t *tenure) newGivingBack(ctx context.Context, called time.Time) givingBack {
	g := givingBack{t: t, ctx: ctx, pauses: ctx, deadline: called.Add(releaseBudget), pause: releasePause}
	g.sent = called
	if own, bounded := ctx.Deadline(); bounded {
		g.deadline = earlier(g.deadline, own)
	}
	if ctx.Done() != nil {
		g.ctx = context.WithoutCancel(ctx)
	}
	return g
}

// run sends the tries, and returns what Lease.Release does. After one that has failed already it sends those that are left.
func (g *givingBack) run() error {
	for {
		if g.fault != nil {
			if err := g.rest(); err != nil {
				return err
			}
			g.sent = time.Now()
		}
		g.next()
		if over, err := g.ended(g.t.locker.store.Release(g.ctx, g.give)); over {
			return err
		}
	}
}

// rest pauses before the next try, if there is to be one. Otherwise the janitor goes on with the release, and rest returns what
// Lease.Release does.
func (g *givingBack) rest() error {
	switch f := g.fault; {
	case f.Stale && !f.Permanent && g.pause == releasePause: // on another connection it may work at once
	case f.Permanent, time.Until(g.deadline) <= g.pause, !sleep(g.pauses, g.pause):
		t := g.t
		if g.record == nil { // otherwise the caller goes on
			t.locker.janitor.AddAt(t.staysTill(), t.ref, false)
		}
		if token := g.give.Ticket.Token; token != "" { // which may have it, or may get it yet
			t.locker.janitor.Add(store.Ref{Key: t.ref.Key, Token: token, TTL: g.ticket.Lasts}, false)
			return fmt.Errorf("%w: release %q: %w: it is not known whether the lock was handed on, so do not hand the ticket on: it is taken back", ErrUnavailable, t.ref.Key, f.Err)
		}
		return fmt.Errorf("%w: release %q: %w", ErrUnavailable, t.ref.Key, f.Err)
	}
	g.pause *= 2
	return nil
}

// next makes the try that is due: the store is to end the tenure, now or when its MinHold has passed.
func (g *givingBack) next() {
	t, waiters := g.t, g.t.locker.waiters
	g.trusted, g.waits = t.leftAt(g.sent) > 0, true
	g.give = store.Give{Ref: t.ref, Until: earlier(g.deadline, g.sent.Add(releaseTimeout)), Record: g.record}
	if till := t.staysTill(); !till.IsZero() {
		if stay := time.Until(till); stay > 0 {
			t.locker.noteStaying(t.ref, till)
			waiters.ForgetHolder(t.ref.Key, t)
			g.give.Stay = stay
			return
		}
	}
	if g.ticket.Token != "" {
		waiters.ForgetHolder(t.ref.Key, t)
		g.give.Ticket = g.ticket
		return
	}
	next, ok, waits := waiters.Offer(t.ref.Key, t)
	if ok {
		g.give.Next = next
		g.sent, g.session = time.Now(), t.locker.subscriber.session()
		return
	}
	g.waits = waits || !t.locker.relays // otherwise also those who came meanwhile are to ask
}

// ended takes in what came of a try. If that is the end, err is what Lease.Release returns.
func (g *givingBack) ended(did store.Released, answer store.Answer, fault error) (over bool, err error) {
	t := g.t
	g.notHeld = fault == nil && did == store.NotHeld
	if g.give.Next.Token != "" {
		g.offerEnded(did, answer, fault)
	}
	switch {
	case fault != nil:
		g.fault = store.AsError(fault)
		g.maybeReleased = g.maybeReleased || g.fault.Ambiguous && g.trusted
		return false, nil
	case did == store.NotHeld && !g.maybeReleased:
		if g.give.Ticket.Token != "" { // what a release clears up was left
			t.locker.janitor.Add(t.ref, true)
		}
		return true, ErrLost
	case g.waits && did != store.HandedOver: // to nobody, as far as we know
		t.locker.waiters.AskFirst(t.ref.Key)
	}
	return true, nil
}

// offerEnded tells the waiter of this Locker to which the lock was offered. Without a reply that one may have the lock, or a
// place in the queue, or neither: it asks then, with its own token, and is told.
func (g *givingBack) offerEnded(did store.Released, answer store.Answer, fault error) {
	outcome := waitqueue.WasQueued
	switch {
	case fault != nil:
		outcome = waitqueue.WasUnanswered
	case answer.Granted:
		outcome = waitqueue.WasGranted
	case did == store.NotHeld:
		outcome = waitqueue.WasNotHeld
	}
	g.t.locker.offerEnded(waitqueue.OfferResult{
		To: g.give.Next.Ref, Outcome: outcome, Sent: g.sent, Grant: answer.Grant, Session: g.session,
	})
}

// offerEnded tells a waiter what came of a command of another one that was to bring it the lock or a place. What one that waits no more may
// have by it is removed.
func (l *Locker) offerEnded(r waitqueue.OfferResult) {
	mayHave := r.Outcome == waitqueue.WasGranted || r.Outcome == waitqueue.WasUnanswered
	if gone := l.waiters.OfferEnded(r); gone && mayHave && !l.holds(r.To) {
		l.janitor.Add(r.To, r.Outcome == waitqueue.WasGranted)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sleep waits for d, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
