package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

const (
	releaseTimeout = 400 * time.Millisecond // one try
	releaseBudget  = time.Second            // all tries that Release waits for
	releasePause   = 10 * time.Millisecond  // after the first failed try, then doubled
)

var errExpired = errors.New("no renewal came through in time")

// errNotHeld: the store does not know the token as the holder.
var errNotHeld = errors.New("forgotten by Redis, or given to others")

// Release gives the lock back, to the next waiter if there is one. The
// lease's context ends first (cause ErrReleased), then renewal has stopped,
// then the lock is given back.
//
// It returns nil when the lock was given back, also after MaxHold, and where the
// policy failed open. The error Is ErrLost when the lease had ended before, so that
// somebody else may have held the lock meanwhile, and when Close has taken the lock
// from work that went on. It Is ErrUnavailable when Redis did not answer within one or
// two seconds: the release is then tried further in the background, and the lock ends
// by its TTL at the latest.
//
// Of ctx only the values are used: Release works just as well when ctx has ended.
// Later calls, from whichever goroutine, wait for the first, have no effect and
// return the same. Release panics if there is no lease, because Acquire has returned an
// error.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		panic("lockmw: Release of a nil Lease: Acquire has returned an error, which must be looked at first")
	}
	err := l.releaseWithin(context.WithoutCancel(ctx))
	l.tellReleased()
	return err
}

// releaseWithin is Release, within ctx. It leaves the observers to tellReleased.
func (l *Lease) releaseWithin(ctx context.Context) error {
	l.release.Do(func() { l.released = l.giveBack(ctx) })
	return l.released
}

// revoke releases the lease of work that may go on. What that is told when it
// releases is ErrLost: somebody else may have the lock by then.
func (l *Lease) revoke(ctx context.Context) (err error) {
	l.release.Do(func() {
		err = l.giveBack(ctx)
		l.released = ErrLost
	})
	l.locker.reports.later(l.tellReleased)
	return err
}

func (l *Lease) giveBack(ctx context.Context) error {
	switch {
	case l.base != nil:
		return l.unjoin()
	case l.parts != nil:
		return l.releaseParts(ctx)
	}
	at := time.Now()
	l.trusted(instantOf(at), false) // a lease that is over was lost, though its timer may be late
	l.mu.Lock()
	wasLost, expired := l.state == lost, l.expired
	if !wasLost {
		l.end(released, ErrReleased)
	}
	l.mu.Unlock()
	l.locker.watchdog.remove(l)
	defer l.locker.forget(l)

	var err error
	switch {
	case wasLost: // reported when it happened
		// The store may keep it for a while yet: if a renewal came through
		// whose answer did not, or at the minority of a quorum's nodes.
		l.locker.janitor.AddAt(l.staysTill(), l.ref, !expired && !l.unsure)
		return ErrLost
	case !l.open:
		err = l.tryRelease(ctx, at)
		if l.unsure {
			l.locker.janitor.AddAt(l.staysTill(), l.ref, false)
		}
	}
	if errors.Is(err, ErrLost) {
		l.reportLost(errNotHeld)
		return err
	}
	if err != nil {
		l.locker.log.Warn("lockmw: release failed; the lock ends by its TTL", "name", l.policy.Name, "key", l.ref.Key, "error", err)
	} else if !l.open {
		l.locker.history.add(l.policy.Name, l.fence, time.Since(l.start))
	}
	l.gaveBack = err
	l.untold.Store(true)
	return err
}

// tryRelease puts the release, first at at, and repeats it until an answer comes or
// the budget ends. After a try without an answer, "not held" means that it had worked:
// the lease was trusted when that try was sent.
func (l *Lease) tryRelease(ctx context.Context, at time.Time) error {
	unsure := false
	pause := releasePause
	deadline := at.Add(releaseBudget)
	for ; ; pause, at = 2*pause, time.Now() {
		try := store.Until(ctx, earlier(deadline, at.Add(releaseTimeout)))
		trusted := l.leftAt(at) > 0
		did, waits, err := l.endInStore(try)
		switch {
		case err == nil && did == store.NotHeld && !unsure:
			return ErrLost
		case err == nil:
			if waits && did != store.HandedOver { // to nobody, as far as we know
				l.locker.waiters.AskFirst(l.ref.Key)
			}
			return nil
		}
		fault := store.AsError(err)
		unsure = unsure || fault.Ambiguous && trusted
		if !fault.Permanent && fault.Stale && pause == releasePause {
			continue // on another connection it may work at once
		}
		if fault.Permanent || time.Until(deadline) <= pause || !sleep(ctx, pause) {
			l.locker.janitor.AddAt(l.staysTill(), l.ref, false)
			return fmt.Errorf("%w: release %q: %w", ErrUnavailable, l.ref.Key, fault.Err)
		}
	}
}

// endInStore has the store end the lease: now, or when its MinHold has passed. waits says
// that somebody of this process may wait for the key without Redis's knowing.
func (l *Lease) endInStore(ctx context.Context) (did store.Released, waits bool, err error) {
	waiters, s := l.locker.waiters, l.locker.store
	if till := l.staysTill(); !till.IsZero() {
		if stay := time.Until(till); stay > 0 {
			l.locker.noteStaying(l.ref.Token, till)
			waiters.Drop(l.ref.Key, l)
			did, err = s.ReleaseAfter(ctx, l.ref, stay)
			return did, true, err
		}
	}
	next, place, ok, waits := waiters.Pass(l.ref.Key, l)
	if ok {
		did, err = l.releaseTo(ctx, next, place)
		return did, true, err
	}
	did, err = s.Release(ctx, l.ref, false)
	return did, waits || l.locker.relay == nil, err // without a queue in the store, also those who came meanwhile
}

// releaseTo gives the lease's lock back and names next, of this process, as the one that
// waits for it.
func (l *Lease) releaseTo(ctx context.Context, next store.Ref, place store.Place) (store.Released, error) {
	sent := time.Now()
	did, answer, err := l.locker.relay.ReleaseTo(ctx, l.ref, next, place)
	gone := l.locker.waiters.Passed(waitqueue.Passing{
		To: next, Sent: sent, Failed: err != nil, Clock: answer.Server,
		Granted: answer.Granted, NotHeld: did == store.NotHeld, Fence: answer.Fence,
	})
	if gone && (err != nil || answer.Granted) && !l.locker.holds(next.Token) {
		l.locker.janitor.Add(next, err == nil)
	}
	return did, err
}

// staysTill is until when the key stays taken after a release; zero: no longer.
func (l *Lease) staysTill() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stayTill
}

// leftAt is how long the last grant can be trusted from at.
func (l *Lease) leftAt(at time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant.left(instantOf(at))
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
