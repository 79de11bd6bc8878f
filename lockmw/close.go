package lockmw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// How a Locker ends.

// Close ends the Locker. From now on Acquire returns ErrClosed, also to calls that wait.
// Leases that are held are renewed until they are released, or until ctx ends. Then Close
// releases them: their contexts end with the cause ErrReleased, and their work gets ErrLost
// from Release, or nil where it had no lock (FailOpen, off). So stop the server first, then
// call Close: with one ctx for both, if stopping the server ends with it (GracefulStop of gRPC
// does not). Close does not wait for the work of leases that were lost. After five seconds the
// log says once what is still held.
//
// The error is nil when nothing is left in Redis but keys that stay taken for their MinHold,
// also if ctx has ended meanwhile. Otherwise it says how many leases could not be released, and
// how many calls that had given up may have left something. Such locks end by their TTL, or by
// their MinHold if that is longer. Two things are not counted: what single nodes of a quorum
// are left with, and the lock of a lease that was lost and not released yet. Redis may have
// that for up to a TTL more, by a renewal whose answer did not come.
//
// When Close returns, no goroutine or connection of the Locker is left (go-redis may take a
// second more to notice, where a server was down). Close returns within two or three
// seconds after ctx has ended, on a quorum within five. An observer or a logger that blocks
// costs half a second of that. What it was not told by then is dropped, and its goroutine
// ends when it returns. Later calls wait for the first and return the same.
func (l *Locker) Close(ctx context.Context) error {
	l.closeOnce.Do(func() { l.closeErr = l.shutDown(ctx) })
	return l.closeErr
}

func (l *Locker) shutDown(ctx context.Context) error {
	l.endClaims()
	close(l.closing)
	var forecasts sync.WaitGroup
	forecasts.Go(l.shadows.close)
	for led := range l.ledgers.All() {
		led.calls.Wait() // each ends at once, or with the command it has sent, which is bounded
	}
	l.drain(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeBudget)
	defer cancel()
	err := l.releaseAll(ctx)
	l.settings.stop()
	l.subscriber.stop()
	if n := l.janitor.Stop(ctx); n > 0 {
		err = errors.Join(err, fmt.Errorf("%w: close: %d abandoned attempts and unanswered releases could not be cleaned up; what they left ends by its TTL", ErrUnavailable, n))
	}
	l.watchdog.Stop()
	forecasts.Wait()
	l.checks.Wait()
	err = errors.Join(err, l.store.Close())
	l.reports.End(lastReports)
	for _, stop := range l.stops {
		stop()
	}
	return err
}

const (
	closeAtOnce = 32              // releases under way
	closeBudget = 2 * time.Second // for all of them, and for cleaning up

	slowDrain    = 5 * time.Second // after which the log says what Close waits for, and
	mostHeldKeys = 8               // how many keys of it
)

// drain waits until all leases are released, or ctx ends, and logs once what it waits for. No claim is
// under way any more, so a ledger that is empty stays so.
func (l *Locker) drain(ctx context.Context) {
	slow := time.NewTimer(slowDrain)
	defer slow.Stop()
	for led := range l.ledgers.All() {
		for empty := false; !empty; {
			select {
			case <-led.empty():
				empty = true
			case <-slow.C:
				l.logHeld()
			case <-ctx.Done():
				return
			}
		}
	}
}

// logHeld logs which work Close waits for.
func (l *Locker) logHeld() {
	leases := l.allLeases()
	keys := make([]string, 0, mostHeldKeys)
	for _, lease := range leases[:min(len(leases), mostHeldKeys)] {
		keys = append(keys, lease.Key())
	}
	l.log.Warn("lockmw: Close waits for work that still has its lock: until it is done, or the context that Close was given ends",
		"held", len(leases), "keys", keys)
}

// releaseAll releases all leases. What Redis does not take within ctx ends
// here all the same, and there by its TTL.
func (l *Locker) releaseAll(ctx context.Context) error {
	leases := l.allLeases()
	next := make(chan *Lease)
	var failed atomic.Int64
	var workers sync.WaitGroup
	for range min(closeAtOnce, len(leases)) {
		workers.Go(func() {
			for lease := range next {
				if err := lease.releaseForClose(ctx); err != nil && !errors.Is(err, ErrLost) {
					failed.Add(1)
				}
			}
		})
	}
	for _, lease := range leases {
		next <- lease
	}
	close(next)
	workers.Wait()
	if n := failed.Load(); n > 0 {
		return fmt.Errorf("%w: close: %d of %d leases could not be released; they end by their TTL", ErrUnavailable, n, len(leases))
	}
	return nil
}

// releaseForClose releases the lease of work that may go on. That work's own Release returns
// ErrLost: somebody else may have the lock by then.
func (l *Lease) releaseForClose(ctx context.Context) (err error) {
	l.releaseOnce.Do(func() {
		l.voidTicket()
		if t := l.tenure(); t != nil && ctx.Err() != nil && l.toKeep().answer == nil {
			err = t.abandon(ctx, l)
		} else {
			err = l.has.release(ctx, l)
		}
		if !l.runsWithout() { // otherwise there was no lock that could be lost
			l.releaseErr = ErrLost
		}
	})
	l.locker.reports.Later(l.tellReleased)
	return err
}

// abandon ends the tenure here and leaves the lock to its TTL: the time that Close has for its releases is over, and nothing more is sent.
func (t *tenure) abandon(ctx context.Context, l *Lease) error {
	defer t.locker.forget(l)
	t.trusted() // a lease that is over was lost
	t.locker.watchdog.RemoveNoWait(&t.renewal)
	if !l.finish() {
		t.cleanUp() // what Redis may have of it yet; Close counts what is not cleaned up
		return ErrLost
	}
	t.over()
	t.locker.waiters.ForgetHolder(t.ref.Key, t)
	t.locker.forgetTenure(t)
	l.eventErr = fmt.Errorf("%w: release %q: %w", ErrUnavailable, t.ref.Key, context.Cause(ctx))
	l.unreported.Store(true)
	return l.eventErr
}
