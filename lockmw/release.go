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

// Release gives the lock back, to the next waiter if there is one. The
// lease's context ends first (cause ErrReleased). Then the lock passes to the next waiter
// of this Locker, or renewal stops and it is given back to Redis.
//
// It returns nil when the lock was given back, also after MaxHold while the TTL lasts, and where the
// policy failed open. The error Is ErrLost when the lock was lost before, so that
// somebody else may have held it meanwhile, and when Close has taken the lock
// from work that went on. It Is ErrUnavailable when Redis has refused, or has not answered
// for about a second: the release is then tried further in the background, and the lock ends
// by its TTL, or its MinHold if that is longer, at the latest. For a lease of several keys of
// which some were lost, the error Is ErrLost alone and names those.
//
// Of ctx only the values are used: Release works just as well when ctx has ended.
// Later calls, from whichever goroutine, wait for the first, have no effect and
// return the same. A nil Lease gives nothing back, and the error Is ErrLost: work that nobody has kept from
// running ran without its lock.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		return errNoLease
	}
	err := l.releaseWithin(context.WithoutCancel(ctx))
	l.tellReleased()
	return err
}

// MarkFailed says that the work under the lease has failed, before Release: the key does not
// stay taken for the policy's MinHold then, unless the policy says MinHoldOnError. WithLock,
// Wrap, Once, the middlewares and the interceptors do so by themselves, see
// Policy.MinHoldOnError. What other leases of the same lock want, which have joined it or
// which it has joined, remains. After the release, without MinHold, and for a nil Lease, it has no effect.
func (l *Lease) MarkFailed() {
	if l == nil || l.policy.MinHold == 0 || l.policy.MinHoldOnError {
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

// releaseForClose releases the lease of work that may go on. That work's own Release returns
// ErrLost: somebody else may have the lock by then.
func (l *Lease) releaseForClose(ctx context.Context) (err error) {
	l.releaseOnce.Do(func() {
		err = l.has.release(ctx, l)
		l.releaseErr = ErrLost
	})
	l.locker.reports.Later(l.tellReleased)
	return err
}

// release passes the lock on to the next waiter of the Locker, or gives it back to the store.
func (t *tenure) release(ctx context.Context, l *Lease) error {
	called := time.Now()
	defer l.locker.forget(l)
	t.holdsAt(instantOf(called), false) // a lease that is over was lost, though its timer may be late
	if !l.finish() {                    // reported when it happened
		l.locker.watchdog.Remove(&t.renewal)
		t.cleanUp()
		return ErrLost
	}
	var err error
	if !t.passOn(called) {
		err = t.giveBack(ctx, called)
	}
	switch {
	case errors.Is(err, ErrLost):
		l.reportLost(errNotHeld)
		return err
	case err != nil:
		l.locker.log.Warn("lockmw: release failed; it is tried again in the background, and the lock ends by its TTL or MinHold at the latest", "name", l.policy.Name, "key", l.ref.Key, "error", err)
	default:
		l.locker.history.Add(l.policy.Name, l.fence, time.Since(l.start))
	}
	l.eventErr = err
	l.unreported.Store(true)
	return err
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

// giveBack ends the tenure in the store, for a Release that was called then.
func (t *tenure) giveBack(ctx context.Context, called time.Time) error {
	t.over()
	t.locker.watchdog.Remove(&t.renewal)
	defer t.locker.forgetTenure(t)
	err := t.tryRelease(ctx, called)
	if t.mayReturn { // a command of the claim may take the lock anew, behind this release. A second removal does no harm
		t.locker.janitor.AddAt(t.stayTill(), t.ref, false)
	}
	return err
}

// tryRelease sends the release and repeats it until a reply comes or the budget ends, which counts from when
// Release was called.
//
// A reply that is lost leaves open whether Redis has carried out the release. Sending it again does no harm: the scripts
// give back only what the token still has, so they cannot take the lock from a later holder, and a second run says "not
// held" (or, while MinHold keeps the key, the same again). After a try without a reply, "not held" is therefore taken for
// the success of that try, if the lease was trusted when it was sent; that Redis had forgotten the lock before cannot be
// told apart. Without such a try it is a loss. The second try is another command where the first one offered the lock to a
// waiter (see endInStore): it is offered once.
//
// Where the reply is lost and Redis has carried the release out, these are told:
//
//   - the next waiter, if it is of another Locker: by a message, as always;
//   - one of this Locker to which the release offered the lock: it asks, see releaseTo;
//   - another one of this Locker, which Redis knew and would have named in the reply: the answer to the next command of the
//     asker names it (store.Answer.Siblings), and it is woken. AskFirst has the asker ask at once when a later try is answered;
//   - the caller, when no try is answered within the budget, or Redis refuses: ErrUnavailable, as the log and the observers.
//     The janitor then tries on for as long as this process lives. Should that die, the lock ends by its TTL or its MinHold.
func (t *tenure) tryRelease(ctx context.Context, called time.Time) error {
	maybeReleased := false
	pause := releasePause
	deadline := called.Add(releaseBudget)
	if own, bounded := ctx.Deadline(); bounded {
		deadline = earlier(deadline, own)
	}
	asks := ctx // each command is bounded, and does not end with ctx
	if ctx.Done() != nil {
		asks = context.WithoutCancel(ctx)
	}
	for sent := called; ; pause, sent = 2*pause, time.Now() {
		trusted := t.leftAt(sent) > 0
		did, waits, err := t.endInStore(asks, earlier(deadline, sent.Add(releaseTimeout)))
		switch {
		case err == nil && did == store.NotHeld && !maybeReleased:
			return ErrLost
		case err == nil:
			if waits && did != store.HandedOver { // to nobody, as far as we know
				t.locker.waiters.AskFirst(t.ref.Key)
			}
			return nil
		}
		fault := store.AsError(err)
		maybeReleased = maybeReleased || fault.Ambiguous && trusted
		if !fault.Permanent && fault.Stale && pause == releasePause {
			continue // on another connection it may work at once
		}
		if fault.Permanent || time.Until(deadline) <= pause || !sleep(ctx, pause) {
			t.locker.janitor.AddAt(t.stayTill(), t.ref, false)
			return fmt.Errorf("%w: release %q: %w", ErrUnavailable, t.ref.Key, fault.Err)
		}
	}
}

// endInStore has the store end the tenure, until then: now, or when its MinHold has passed. waits
// says that somebody of this Locker may wait for the lock.
func (t *tenure) endInStore(ctx context.Context, until time.Time) (did store.Released, waits bool, err error) {
	waiters, s := t.locker.waiters, t.locker.store
	give := store.Give{Ref: t.ref, Until: until}
	if till := t.stayTill(); !till.IsZero() {
		if stay := time.Until(till); stay > 0 {
			t.locker.noteStaying(t.ref, till)
			waiters.ForgetHolder(t.ref.Key, t)
			give.Stay = stay
			did, _, err = s.Release(ctx, give)
			return did, true, err
		}
	}
	next, place, ok, waits := waiters.Offer(t.ref.Key, t)
	if ok {
		give.Next = store.Waiter{Ref: next, Place: place}
		did, err = t.releaseTo(ctx, give)
		return did, true, err
	}
	did, _, err = s.Release(ctx, give)
	return did, waits || !t.locker.relays, err // otherwise also those who came meanwhile are to ask
}

// releaseTo gives the lock back and offers it to a waiter of this Locker. Without a reply that one may have the lock, or a
// place in the queue, or neither: it asks then, with its own token, and is told.
func (t *tenure) releaseTo(ctx context.Context, give store.Give) (store.Released, error) {
	next, sent, session := give.Next.Ref, time.Now(), t.locker.subscriber.session()
	did, answer, err := t.locker.store.Release(ctx, give)
	outcome := waitqueue.WasQueued
	switch {
	case err != nil:
		outcome = waitqueue.WasUnanswered
	case answer.Granted:
		outcome = waitqueue.WasGranted
	case did == store.NotHeld:
		outcome = waitqueue.WasNotHeld
	}
	gone := t.locker.waiters.OfferEnded(waitqueue.OfferResult{
		To: next, Outcome: outcome, Sent: sent, Grant: answer.Grant, Session: session,
	})
	if gone && (err != nil || answer.Granted) && !t.locker.holds(next) {
		t.locker.janitor.Add(next, err == nil)
	}
	return did, err
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
