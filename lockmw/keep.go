package lockmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// How the lock of Do is given back when there is an answer to keep: by one command, which keeps the answer only if the lock is
// still held. If the lock lapsed before, the next call would do the work again. So it is renewed until Redis has the answer, for a TTL at
// most; the caller waits no longer than for any release.

// kept is what is to be kept of the call's work, with the release: nil is nothing. With Uncertain its intent has to go, or to give way to an
// answer, unless nobody knows what was done: then why says how that came to be. What was done and cannot be kept must not be done again.
func (c *call) kept(lease *Lease, said remark, answer *store.Record, lasts bool, err error) (keep *store.Record, why string) {
	if c.how.Crash == RunAgain {
		if err != nil {
			return nil, ""
		}
		return answer, ""
	}
	why = said.whyUnknown(lease, err)
	switch {
	case !lasts:
		keep = c.how.bareFact(c.of.fingerprint)
	case why != "":
		return nil, why
	case answer == nil:
		keep = &store.Record{Undone: true}
	default:
		keep = new(*answer)
	}
	keep.Work = lease.fence
	return keep, ""
}

// stopped reports whether work that has failed with err was told to stop in the middle, or something within it was: then the error does not mean that
// nothing was done. A lock within the work may be lost although the work itself went well, and a request within it whose time is over may have
// arrived.
func stopped(lease *Lease, err error) bool {
	return !lease.holds(held) || lease.ctx.Err() != nil || errors.Is(err, ErrLost) || errors.Is(err, ErrMaxHold) || tellsOfATimeout(err)
}

// tellsOfATimeout reports whether err is that of a context, or of something else whose time is over, or has one in it. In an AcquireError it is none: what
// waited for a lock has not begun.
func tellsOfATimeout(err error) bool {
	if _, ok := err.(*AcquireError); ok { //nolint:errorlint // what it is in is looked at, too
		return false
	}
	if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() || err == context.Canceled { //nolint:errorlint // the same
		return true
	}
	switch wraps := err.(type) { //nolint:errorlint // the same
	case interface{ Unwrap() error }:
		return tellsOfATimeout(wraps.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wraps.Unwrap(), tellsOfATimeout)
	}
	return false
}

// giveBackKeeping is giveBack for a lease with an answer. With ErrUnavailable it is tried further in the background.
func (t *tenure) giveBackKeeping(ctx context.Context, l *Lease, answer *store.Record, called time.Time) error {
	t.mu.Lock()
	t.holder = nil // nobody is to be told of a renewal, or of a loss
	t.mu.Unlock()
	k := &keeping{givingBack: t.newGivingBack(ctx, called), lease: l, began: instantOf(called)}
	k.record = answer
	err := k.run()
	if k.isOver(err) {
		return k.end(err)
	}
	k.logNotKept("Redis has not confirmed it; it is tried further", err)
	led := l.locker.enter(t.ref.Key)
	if led == nil { // Close has begun
		return k.end(err)
	}
	go func() {
		defer led.calls.Done()
		k.goOn()
	}()
	return err
}

// logNotKept logs that Redis does not know what became of the work, and why.
func (k *keeping) logNotKept(why string, err error) {
	what, l := "an answer is not kept", k.lease
	if k.record.Undone {
		what = "work was not done, and is noted as begun"
	}
	l.locker.log.Warn("lockmw: "+what+": "+why, "name", l.policy.Name, "key", l.ref.Key, "error", err)
}

// releaseLost is the release of a lease whose lock was lost before. The error is ErrLost, or nil if Redis has the lease's answer all the same: it
// takes that if the work was noted as begun and nobody has said since what became of it, because as long as the intent is there nobody else
// does the work.
func (t *tenure) releaseLost(ctx context.Context, l *Lease, called time.Time) error {
	keeps := l.toKeep()
	if !keeps.outlivesTheLock() {
		t.cleanUp()
		l.reportKept(keeps.answer, ErrLost)
		return ErrLost
	}
	k := &keeping{givingBack: t.newGivingBack(ctx, called), lease: l, began: instantOf(called), lostBefore: true}
	k.record = keeps.answer
	err := k.run()
	if wasTold(err) {
		t.cleanUp()
		l.reportKept(k.record, err)
	} else {
		k.logNotKept("the lock was lost; it is tried further", err)
		k.later(err)
	}
	if err != nil || keeps.answer.Undone {
		return ErrLost
	}
	return nil
}

// A keeping is a release that keeps an answer.
type keeping struct {
	givingBack
	lease      *Lease
	began      instant // when the first try was sent
	lostBefore bool    // the lock was lost, and that was told, before the release
}

// run sends tries until one is answered, or their time is over.
func (k *keeping) run() error {
	err := k.givingBack.run()
	switch {
	case err == nil && k.notHeld: // the try without a reply was carried out, or the lock was lost before
		return k.find()
	case errors.Is(err, ErrLost) && k.record.Work != 0 && !k.record.Undone: // its intent may have been there
		if err = k.find(); err == nil && !k.lostBefore {
			k.lease.reportLostAfter(0, errNotHeld)
		}
	}
	return err
}

// find returns nil if Redis has the answer.
func (k *keeping) find() error {
	a, err := k.t.locker.store.Recall(k.ctx, store.Request{
		Ref: k.t.ref, Until: time.Now().Add(releaseTimeout),
		Recall: &store.Recall{Fingerprint: k.record.Fingerprint, Waited: time.Since(k.lease.start)},
	})
	switch {
	case err != nil:
		k.fault = store.AsError(err)
		return fmt.Errorf("%w: %w", ErrUnavailable, k.fault.Err)
	case k.record.Undone: // the intent went with the first release, or with nobody; or it is the next holder's
		return nil
	case a.Recalled == nil || a.Recalled.Begun():
		return ErrLost
	case a.Recalled.Data == k.record.Data:
		return nil
	case k.record.Work == 0 && now().since(k.began) >= k.record.Retain: // the next holder's may be in the place of this one
		return nil
	}
	return ErrLost
}

// isOver reports whether what came of tries is the end: Redis has the answer, or will not take it.
func (k *keeping) isOver(err error) bool {
	return wasTold(err) || k.fault.Permanent
}

// wasTold reports whether Redis has said what became of a release: it has the answer, or there was nothing to release.
func wasTold(err error) bool { return err == nil || errors.Is(err, ErrLost) }

// goOn tries further while the lock is there, for a TTL at most, since others wait for it, and until Close begins.
func (k *keeping) goOn() {
	err := ErrUnavailable
	for end := time.Now().Add(k.t.ttl); time.Now().Before(end) && k.t.leftAt(time.Now()) > 0 && !k.t.locker.isClosed(); {
		k.anew()
		if err = k.run(); k.isOver(err) {
			break
		}
	}
	if err = k.end(err); errors.Is(err, ErrLost) {
		k.logNotKept("the lock was lost before", err)
	}
}

// end ends the tenure, and returns what Lease.Release does. Where Redis has not taken the answer, the lock is given back in its own right, but for
// work that is noted as begun: whoever had the lock then would be told that nobody knows.
func (k *keeping) end(err error) error {
	t := k.t
	t.over()
	t.locker.watchdog.RemoveNoWait(&t.renewal)
	defer t.forget()
	switch {
	case err == nil:
		k.lease.reportKept(k.record, nil)
		return nil
	case errors.Is(err, ErrLost):
		t.cleanUp()
		k.lease.reportKept(k.record, err)
		return err
	}
	k.logNotKept("Redis has not taken it", err)
	if k.record.Work != 0 {
		k.later(err)
		return err
	}
	k.lease.reportKept(k.record, err)
	g := t.newGivingBack(k.ctx, time.Now())
	g.maybeReleased = k.maybeReleased
	return g.run()
}

const (
	laterPause     = time.Second // before the first try, then doubled
	mostLaterPause = 10 * time.Second
	mostLater      = time.Hour // it has the answer in memory
)

// later tries in the background to have Redis know what became of noted work, until Redis has answered, with a last try when Close begins. Without
// this process nobody would know. The lock is given back by the same command; it is not needed, and may be another's by then, since the intent is
// compared by its id. err is what came of the last try.
func (k *keeping) later(err error) {
	led := k.t.locker.enter(k.t.ref.Key)
	if led == nil { // Close has begun
		k.t.cleanUp()
		k.leave(err)
		return
	}
	go func() {
		defer led.calls.Done()
		defer k.t.cleanUp()
		for end, pause := time.Now().Add(mostLater), laterPause; ; pause = min(2*pause, mostLaterPause) {
			last := time.Now().After(end)
			select {
			case <-k.t.locker.closing:
				last = true
			case <-time.After(pause):
			}
			k.anew()
			if err := k.run(); wasTold(err) || last {
				k.leave(err)
				return
			}
		}
	}()
}

// leave ends the tries of later: nobody knows of work of which Redis was not told.
func (k *keeping) leave(err error) {
	l := k.lease
	l.reportKept(k.record, err)
	if !wasTold(err) {
		work := &UncertainError{Key: l.ref.Key, ID: strconv.FormatInt(l.fence, 10), Since: l.start}
		l.locker.logUncertain(context.Background(), l.policy.Name, work, whyUntold)
	}
}

// anew has run send its tries once more.
func (k *keeping) anew() {
	next := k.t.newGivingBack(context.Background(), time.Now())
	next.record, next.maybeReleased = k.record, k.maybeReleased
	k.givingBack = next
}
