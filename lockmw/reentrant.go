package lockmw

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// How a nested call of Acquire joins the lease that its context has already, where Policy.Reentrant says so: it gets a lease of
// its own, with a part in the outer one's lock.

// covers reports whether work of a kind may be done under the lease.
func (l *Lease) covers(kind store.Kind) bool {
	has := l.ref.Kind
	if has == (store.Kind{}) {
		return true // nobody else is there
	}
	return has.Shared == kind.Shared && (has.Permits > 0) == (kind.Permits > 0)
}

// join returns a lease of c's own under l's lock: it has a context and a
// MaxHold, and nothing of it is in the store. Observers hear of the lock only,
// once.
func (l *Lease) join(c *claim) *Lease {
	j := newLease(c, joined{l}, new(sync.Mutex), l.fence, time.Now())
	j.ref = l.ref
	// c's context may have been cut off from the outer lease's end.
	cancel := j.cancel
	unlink := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	j.cancel = func(cause error) { unlink(); cancel(cause) }
	j.mu.Lock()
	j.limit(c.policy.MaxHold)
	j.mu.Unlock()
	l.stay(j, c.policy.MinHold)
	return j
}

type joined struct{ base *Lease }

func (j joined) trusted() bool { return j.base.Valid() }

func (j joined) remains(*Lease) (left time.Duration, ok bool) { return j.base.has.remains(j.base) }

func (j joined) reliesOn() []*Lease { return []*Lease{j.base} }

// release leaves the lock with the lease that l has joined.
func (j joined) release(_ context.Context, l *Lease) error {
	l.finish()
	if !j.base.Valid() && !j.base.holds(overHeld) && !j.base.runsWithout() {
		return ErrLost
	}
	return nil
}

// stay keeps the key taken for min from now on behalf of lease, if l is released sooner.
func (l *Lease) stay(lease *Lease, min time.Duration) {
	t := l.tenure()
	if min == 0 || t == nil {
		return
	}
	if t.stay(lease, l, time.Now().Add(min)) && min > l.policy.TTL {
		l.locker.watchdog.RenewNow(&t.renewal) // a crash must not free it sooner
	}
}
