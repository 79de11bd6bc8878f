package lockmw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A holding is what a Lease has, by how it came to be:
//
//   - *tenure: a lock of its own;
//   - joined: a part in the lock of another lease, which it has joined (Policy.Reentrant);
//   - *bundle: several locks, each with a lease of its own (AcquireAll);
//   - nothing: no lock, since Redis could not be reached (Policy.FailOpen).
type holding interface {
	// trusted reports whether what is held can be relied on now. Leases that are over
	// are told so.
	trusted() bool

	// remains is how long l can rely on it if no renewal comes. ok is false where there is
	// no lock that could be lost.
	remains(l *Lease) (left time.Duration, ok bool)

	// reliesOn returns those whose locks l relies on, where it has none of its own.
	reliesOn() []*Lease

	// release ends l, gives back what is held, and returns what Lease.Release does.
	release(ctx context.Context, l *Lease) error
}

// tenure returns the one within which the lease has a lock of its own, or nil.
func (l *Lease) tenure() *tenure {
	t, _ := l.has.(*tenure)
	return t
}

// owner returns the lease whose lock this one works under: itself, unless it has joined
// another one. It is nil for a lease of several keys.
func (l *Lease) owner() *Lease {
	switch has := l.has.(type) {
	case joined:
		return has.base
	case *bundle:
		return nil
	}
	return l
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

func (t *tenure) trusted() bool { return t.holdsAt(now(), false) }

func (t *tenure) remains(l *Lease) (left time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.grant()
	return validity(g.ttl) - now().since(g.since), true
}

func (*tenure) reliesOn() []*Lease { return nil }

// release gives the lock to the next waiter of this process, or back to the store.
func (t *tenure) release(ctx context.Context, l *Lease) error {
	at := time.Now()
	defer l.locker.forget(l)
	t.holdsAt(instantOf(at), false) // a lease that is over was lost, though its timer may be late
	if !l.finish() {                // reported when it happened
		l.locker.watchdog.Remove(&t.renewal)
		t.cleanUp()
		return ErrLost
	}
	var err error
	if !t.passOn(at) {
		err = t.giveBack(ctx, at)
	}
	switch {
	case errors.Is(err, ErrLost):
		l.reportLost(errNotHeld)
		return err
	case err != nil:
		l.locker.log.Warn("lockmw: release failed; the lock ends by its TTL", "name", l.policy.Name, "key", l.ref.Key, "error", err)
	default:
		l.locker.history.Add(l.policy.Name, l.fence, time.Since(l.start))
	}
	l.gaveBack = err
	l.untold.Store(true)
	return err
}

type nothing struct{}

func (nothing) trusted() bool { return true }

func (nothing) remains(*Lease) (left time.Duration, ok bool) { return 0, false }

func (nothing) reliesOn() []*Lease { return nil }

func (nothing) release(_ context.Context, l *Lease) error {
	l.finish()
	l.locker.forget(l)
	l.untold.Store(true)
	return nil
}

// runsWithout reports whether the lease has no lock, because its policy failed open.
func (l *Lease) runsWithout() bool { return l.has == (nothing{}) }

type joined struct{ base *Lease }

func (j joined) trusted() bool { return j.base.Valid() }

func (j joined) remains(*Lease) (left time.Duration, ok bool) { return j.base.has.remains(j.base) }

func (j joined) reliesOn() []*Lease { return []*Lease{j.base} }

// release leaves the lock with the lease that l has joined.
func (j joined) release(_ context.Context, l *Lease) error {
	l.finish()
	if !j.base.Valid() && !j.base.holds(overHeld) {
		return ErrLost
	}
	return nil
}

// A bundle has the leases of several keys. Each ends with the one before it, see
// bundle.take.
type bundle struct {
	locker *Locker
	parts  []*Lease
}

func (b *bundle) trusted() bool {
	trusted := true
	for _, part := range b.parts {
		trusted = part.Valid() && trusted // each one that has ended is told so
	}
	return trusted
}

// remains is what the first of the parts to end has left.
func (b *bundle) remains(*Lease) (left time.Duration, ok bool) {
	for _, part := range b.parts {
		if its, has := part.has.remains(part); has && (!ok || its < left) {
			left, ok = its, true
		}
	}
	return left, ok
}

func (b *bundle) reliesOn() []*Lease { return b.parts }

// owners returns the leases that have the locks of the parts.
func (b *bundle) owners() []*Lease {
	owners := make([]*Lease, len(b.parts))
	for i, part := range b.parts {
		owners[i] = part.owner()
	}
	return owners
}

// tellReleased tells the observers of the parts that were released.
func (b *bundle) tellReleased() {
	for _, part := range b.parts {
		part.tellReleased()
	}
}

// release gives back all parts at the same time. The error is ErrLost, with their keys, if
// some were lost.
func (b *bundle) release(ctx context.Context, l *Lease) error {
	b.trusted() // parts that are over are told so, with ErrLost, before the context ends
	l.finish()
	errs := b.releaseTogether(ctx)
	err := errors.Join(errs...)
	if !errors.Is(err, ErrLost) {
		return err
	}
	var lost []string
	for i, part := range b.parts {
		if errors.Is(errs[i], ErrLost) {
			lost = append(lost, part.Key())
		}
	}
	return fmt.Errorf("%w: %s", ErrLost, strings.Join(lost, ", "))
}
