package lockmw

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// How the lock of Do is given back when there is an answer to keep: by one command, which keeps the answer only if the lock is
// still held. So the lock goes on being renewed until Redis has the answer, or its trust ends: if it lapsed before, the next call would do
// the work again. The caller does not wait for longer than for any release.

// releaseKeeping is release for work whose answer is to be kept. The error Is ErrLost where the lock was lost before: nothing is kept then.
// With ErrUnavailable it is tried further in the background.
func (l *Lease) releaseKeeping(ctx context.Context, r *store.Record) error {
	l.releaseOnce.Do(func() { l.releaseErr = l.tenure().releaseKeeping(context.WithoutCancel(ctx), l, r) })
	l.tellReleased()
	return l.releaseErr
}

func (t *tenure) releaseKeeping(ctx context.Context, l *Lease, r *store.Record) error {
	called := time.Now()
	t.holdsAt(instantOf(called), false)
	if !l.finish() {
		defer l.locker.forget(l)
		l.locker.watchdog.RemoveNoWait(&t.renewal)
		t.cleanUp()
		return ErrLost
	}
	t.mu.Lock()
	t.holder = nil // nobody is to be told of a renewal, or of a loss
	t.mu.Unlock()
	k := keeping{lease: l, givingBack: t.newGivingBack(ctx, called)}
	k.record = r
	err := k.run()
	switch {
	case errors.Is(err, ErrLost):
		k.end(err)
		l.reportLost(errNotHeld)
		return err
	case err == nil:
		k.end(nil)
	case k.fault.Permanent:
		l.logNotKept("Redis refuses it; the next call does the work again", err)
		err = k.without()
	default:
		l.logNotKept("Redis has not confirmed it; it is tried further while the lock can be relied on", err)
		led := l.locker.enter(t.ref.Key)
		if led == nil { // Close has begun
			err = k.without()
			break
		}
		go func() {
			defer led.calls.Done()
			k.goOn()
		}()
	}
	if errors.Is(err, ErrLost) { // without
		l.reportLost(errNotHeld)
		return err
	}
	l.eventErr = err
	l.unreported.Store(true)
	return err
}

func (l *Lease) logNotKept(why string, err error) {
	l.locker.log.Warn("lockmw: an answer is not kept: "+why, "name", l.policy.Name, "key", l.ref.Key, "error", err)
}

// A keeping is a release that keeps an answer.
type keeping struct {
	givingBack
	lease *Lease
}

// run sends tries until one is answered, or their time is over.
func (k *keeping) run() error {
	err := k.givingBack.run()
	if err == nil && k.notHeld { // the try without a reply was carried out, or the lock was lost before
		return k.find()
	}
	return err
}

// find returns nil if Redis has the record.
func (k *keeping) find() error {
	a, err := k.t.locker.store.Recall(k.ctx, store.Request{
		Ref: k.t.ref, Until: time.Now().Add(releaseTimeout),
		Recall: &store.Recall{Fingerprint: k.record.Fingerprint, Waited: time.Since(k.lease.start)},
	})
	switch {
	case err != nil:
		k.fault = store.AsError(err)
		return errors.Join(ErrUnavailable, err)
	case a.Recalled != nil: // or that of the next holder, who cannot have come before
		return nil
	}
	return ErrLost
}

// goOn tries further while the lock is there, for a TTL at most and until Close begins: others wait for the lock. Then it is given back in its own
// right. The observers have been told of the release.
func (k *keeping) goOn() {
	err := ErrUnavailable
	for end := time.Now().Add(k.t.ttl); time.Now().Before(end) && k.t.leftAt(time.Now()) > 0 && !k.t.locker.isClosed(); {
		next := k.t.newGivingBack(context.Background(), time.Now())
		next.record, next.maybeReleased = k.record, k.maybeReleased
		k.givingBack = next
		if err = k.run(); err == nil || errors.Is(err, ErrLost) || k.fault.Permanent {
			break
		}
	}
	switch {
	case err == nil:
		k.end(nil)
		return
	case errors.Is(err, ErrLost):
		k.end(err)
	default:
		_ = k.without()
	}
	k.lease.logNotKept("it was tried for as long as that could be", err)
}

// without gives the lock back in its own right.
func (k *keeping) without() error {
	t := k.t
	g := t.newGivingBack(k.ctx, time.Now())
	g.maybeReleased = k.maybeReleased
	t.over()
	t.locker.watchdog.RemoveNoWait(&t.renewal)
	defer t.locker.forget(k.lease)
	defer t.forget()
	return g.run()
}

// end ends the tenure, of which Redis has nothing any more if err is nil.
func (k *keeping) end(err error) {
	t, l := k.t, k.lease.locker
	defer l.forget(k.lease)
	t.over()
	l.watchdog.RemoveNoWait(&t.renewal)
	if err != nil {
		t.cleanUp()
		l.forgetTenure(t)
		return
	}
	l.history.Add(k.lease.policy.Name, k.lease.fence, time.Since(k.lease.start))
	t.forget()
}
