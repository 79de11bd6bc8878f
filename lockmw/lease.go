package lockmw

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A Lease is a lock that is held, and the only thing that can give it back.
// Its methods are safe for concurrent use.
type Lease struct {
	locker *Locker
	ref    store.Ref
	policy Policy
	fence  int64
	open   bool     // failed open: there is no lock
	base   *Lease   // the lease that this one has joined, see reentrant.go
	parts  []*Lease // of AcquireAll, see multi.go
	unsure bool     // a question for it got no answer and may still come true
	ctx    context.Context
	own    leaseContext // ctx, where the lease has one of its own
	cancel context.CancelCauseFunc
	outer  *Lease // the next lease that the caller's context holds
	start  time.Time

	mu       sync.Mutex
	state    state
	expired  bool        // lost because no renewal came through
	grant    grant       // the last one, from the acquire or a renewal
	expiry   *time.Timer // ends the lease in time, whatever renewals do
	maxHold  *time.Timer
	stayTill time.Time     // the key stays taken until then; zero: released at once
	stuckAt  time.Duration // held this long, the next stuck event is due
	failures int           // renewals that failed in a row

	renewal  renewal // the watchdog's
	release  sync.Once
	released error       // Release's answer, once release is done
	untold   atomic.Bool // the observers are to be told of the release
	gaveBack error       // what came of it, for them
}

type state uint8

const (
	held state = iota
	overHeld
	lost
	released
)

// A grant is what the store promised, and from when on.
type grant struct {
	fence  int64
	taken  int64   // store.Answer's
	since  instant // not later than when the store set the TTL
	ttl    time.Duration
	pushed bool // by a release; not confirmed by a question of ours yet
	vague  bool // pushed, and since is not known
	passed bool // by a release of this Locker
	open   bool // no grant at all
}

// validity is how much of a TTL can be relied on: our clock and the store's
// may differ in rate (1 %) and in resolution (2 ms). Redis's own Redlock
// description has the same margin.
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// guard is how long before the end of its validity a lease's context ends,
// so that the work can stop before the lock passes on.
func guard(ttl time.Duration) time.Duration { return max(50*time.Millisecond, ttl/10) }

// left is how long a lease can be trusted from at.
func (g grant) left(at instant) time.Duration {
	return validity(g.ttl) - guard(g.ttl) - at.since(g.since)
}

// newLease returns the lease of c's grant, which came at start.
func newLease(c *claim, g grant, start time.Time) *Lease {
	l := &Lease{
		locker: c.locker, ref: c.ref, policy: c.policy, fence: g.fence, open: g.open,
		unsure: c.unsure, grant: g, start: start, stuckAt: stuckAfter * c.policy.TTL,
	}
	l.ref.Fence, l.ref.Taken = g.fence, g.taken
	if min := c.policy.MinHold; min > 0 && !g.open {
		l.stayTill = l.start.Add(min)
	}
	l.derive(c.ctx)
	return l
}

// derive makes the lease's context.
func (l *Lease) derive(parent context.Context) {
	l.outer, _ = FromContext(parent)
	ctx, cancel := context.WithCancelCause(parent)
	l.own = leaseContext{ctx, l}
	l.ctx, l.cancel = &l.own, cancel
}

// begin arms the timers and hands the lease to the watchdog.
func (l *Lease) begin() {
	l.locker.keep(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit(l.policy.MaxHold)
	if l.open {
		return
	}
	l.expiry = time.AfterFunc(l.grant.left(now()), l.expire)
	l.locker.watchdog.add(l, l.start.Add(l.firstRenewal()))
}

// limit has the lease end after max, if that is not zero. The caller holds mu.
func (l *Lease) limit(max time.Duration) {
	if max > 0 {
		l.maxHold = time.AfterFunc(max, l.endMaxHold)
	}
}

// expire is for the expiry timer. A lease over its MaxHold is not trusted any
// more, and when the timer fires the store has forgotten it.
func (l *Lease) expire() {
	if !l.trusted(now(), true) && l.holds(overHeld) {
		l.locker.forget(l)
	}
}

// ask is the Ref with which the lease is renewed: for its TTL, or until it may
// be given back, if that is longer.
func (l *Lease) ask() store.Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	ref := l.ref
	ref.TTL = max(l.policy.TTL, time.Until(l.stayTill))
	return ref
}

// Context returns the context that Acquire has returned: the one to run the work
// with, a child of the context that Acquire was called with. It ends with the cause
// ErrLost before somebody else can have the lock, with ErrMaxHold when the policy's
// MaxHold has passed, with ErrReleased at the release, or with its parent.
func (l *Lease) Context() context.Context { return l.ctx }

// Key returns what is locked: the policy's prefix and the key. For several keys, it
// is all of them, sorted and joined by ", ", to be read by people.
func (l *Lease) Key() string { return l.ref.Key }

// Fence returns a positive number that strictly increases from one holder of the key
// to the next, for resources that refuse a lower one than they have seen. It says
// nothing else: it does not count holders. A lease that has joined another one, by
// Policy.Reentrant, has the fence of that.
//
// It is 0 where no lock is held because the policy failed open, on a quorum, and for
// several keys, which have one each: see FenceOf.
func (l *Lease) Fence() int64 { return l.fence }

// Valid reports whether the lock is still held by this lease, and will be for some
// 50 ms at least: call it right before a side effect. It asks the machine's clocks and
// not Redis. It takes the time that passed on both of them, so it notices that the
// process or the whole machine was stopped. Once false it stays false; it is false
// after the release, and when MaxHold has passed. Where the policy failed open it is
// true until then: no lock can be lost.
func (l *Lease) Valid() bool {
	valid := l.trusted(now(), false)
	if l.base != nil {
		return valid && l.base.Valid()
	}
	for _, part := range l.parts {
		valid = part.Valid() && valid // each one that has ended is told so
	}
	return valid
}

// trusted is Valid at at, for the expiry timer too: a timer that fired although a
// renewal moved the end is armed anew.
func (l *Lease) trusted(at instant, rearm bool) bool {
	l.mu.Lock()
	if l.state != held || !l.owns() {
		defer l.mu.Unlock()
		return l.state == held
	}
	left := l.grant.left(at)
	if left > 0 {
		if rearm {
			l.expiry.Reset(left)
		}
		l.mu.Unlock()
		return true
	}
	l.end(lost, ErrLost)
	l.expired = true
	l.mu.Unlock()
	l.reportLost(errExpired)
	return false
}

// ValidUntil returns when the lock can no longer be relied on, if no renewal comes
// before. The lease's context ends earlier than that, by a tenth of the TTL and at
// least by 50 ms. ValidUntil is the zero time where the policy failed open.
func (l *Lease) ValidUntil() time.Time {
	switch {
	case l.base != nil:
		return l.base.ValidUntil()
	case l.parts != nil:
		return l.partsValidUntil()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		return time.Time{}
	}
	return time.Now().Add(validity(l.grant.ttl) - now().since(l.grant.since))
}

// owns reports whether there is a lock in the store that is this lease's own.
func (l *Lease) owns() bool { return !l.open && l.base == nil && l.parts == nil }

// end ends the lease's trust, once. The caller holds mu.
func (l *Lease) end(s state, cause error) {
	l.state = s
	if s != released {
		l.locker.waiters.Drop(l.ref.Key, l) // whoever rests behind it asks by itself
	}
	l.cancel(cause)
	if l.maxHold != nil {
		l.maxHold.Stop()
	}
	if l.expiry != nil {
		l.expiry.Stop()
		if s == overHeld {
			l.expiry.Reset(l.grant.ttl - now().since(l.grant.since))
		}
	}
	if s == lost || s == overHeld && l.open { // there is nothing to release
		l.locker.forget(l)
	}
}

// endMaxHold tells the work to stop. The lock stays until the release, or
// until its TTL has passed: it is not renewed any more.
func (l *Lease) endMaxHold() {
	l.mu.Lock()
	was := l.state
	if was == held {
		l.end(overHeld, ErrMaxHold)
	}
	l.mu.Unlock()
	if was == held {
		l.locker.log.Warn("lockmw: lock was held for longer than MaxHold; its work was told to stop", "name", l.policy.Name, "key", l.ref.Key)
		l.tellLater(EventStuck, ErrMaxHold)
	}
}

// heldBy returns the lease by which ctx holds the lock called key, or nil.
func (l *Locker) heldBy(ctx context.Context, key string) *Lease {
	for lease, _ := FromContext(ctx); lease != nil; lease = lease.outer {
		if lease.locker == l && lease.parts == nil && lease.ref.Key == key && lease.owner().holds(held, overHeld) {
			return lease.owner()
		}
	}
	return nil
}

// owner returns the lease whose lock this one works under.
func (l *Lease) owner() *Lease {
	if l.base != nil {
		return l.base
	}
	return l
}

// holds reports whether the lease is in one of the states.
func (l *Lease) holds(states ...state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(states, l.state)
}

type leaseKey struct{}

// A leaseContext carries its lease.
type leaseContext struct {
	context.Context
	lease *Lease
}

// Value returns the lease to FromContext, and the parent's values.
func (c leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

// FromContext returns the lease that ctx belongs to: in a handler behind a middleware
// or an interceptor, in the function that WithLock runs, and with the context that
// Acquire returned. Of nested leases it is the innermost. The lease may have ended.
// Without a lease it returns nil and false.
func FromContext(ctx context.Context) (*Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	return l, ok
}
