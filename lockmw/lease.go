package lockmw

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A Lease is a lock that is held, and the only thing that can give it back. Its methods are
// safe for concurrent use.
//
// A nil Lease is no lock: FromContext returns it where there is none. It is never Valid, and
// each method says what else it returns. No method of a nil Lease panics.
type Lease struct {
	locker    *Locker
	ref       store.Ref
	policy    Policy
	fence     int64
	note      string    // its caller's, see WithNote
	part      bool      // of several keys of a call, and not the one by which the call is counted
	forAnswer bool      // of Do
	ofDoor    bool      // a middleware or an interceptor has taken it, see seam.TakenByDoor
	has       holding   // a lock of its own, a part in another lease's lock, several leases, or nothing
	start     time.Time // the begin of the lease, from which MaxHold counts
	work                // the context of the work

	mu      *sync.Mutex // guards the fields up to the next blank line; the tenure's mutex, if the lease has a lock of its own
	state   state       // changes in end alone
	last    promise     // the tenure's when the lease ended
	tooLong             // what happens when the work takes long
	keeps   toKeep      // with the release
	ticket  *handing    // see Lease.handing

	ending // the release
}

// tooLong is what happens to a lease whose work takes long.
type tooLong struct {
	maxHold *time.Timer   // calls endMaxHold
	stuckAt time.Duration // the age of the lease at which the next EventStuck is due
}

// work is the context of the work under a lease.
type work struct {
	ctx        context.Context         // &own
	own        leaseContext            // the context itself, here so that it costs no allocation
	cancel     context.CancelCauseFunc // what ends ctx
	outer      *Lease                  // the lease that the context of Acquire's caller had already, or nil
	callerDone <-chan struct{}         // Done of the context that Acquire was called with
}

// toKeep is what a lease of Do keeps with its release.
type toKeep struct {
	answer  *store.Record // nil: there is none
	unbegun bool          // it undoes the intent of work that has not begun, and never does
}

// outlivesTheLock reports whether Redis takes it although the lock was lost, because the work is noted as begun. That the work is
// undone counts only if it has not begun: with the lock it may have lost track of what it did.
func (k toKeep) outlivesTheLock() bool {
	return k.answer != nil && k.answer.Work != 0 && (!k.answer.Undone || k.unbegun)
}

// keepWith says what is to be kept with the release. It reports false if the lease has ended. Where that was by a release, as of Close, what was to be
// kept before was kept.
func (l *Lease) keepWith(k toKeep) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != released {
		l.keeps = k
	}
	return l.state == held || l.state == overHeld
}

// toKeep is what keepWith has said.
func (l *Lease) toKeep() toKeep {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keeps
}

// ending is the release of a lease.
type ending struct {
	releaseOnce sync.Once
	releaseErr  error       // what Release returns, set within releaseOnce
	unreported  atomic.Bool // the observers are still to be told of the release: EventReleased
	eventErr    error       // the Err of that event: nil where the lock was given back, whatever Release returns
}

// A state is how far a lease has come. It goes from held to one of the others, and from overHeld to released.
type state uint8

const (
	held     state = iota
	overHeld       // its MaxHold has passed: the work was told to stop, and the lock is no longer renewed
	lost           // somebody else may have the lock
	released       // given back, or about to be
)

// derive makes the lease's context.
func (l *Lease) derive(parent context.Context) {
	l.outer, _ = FromContext(parent)
	ctx, cancel := context.WithCancelCause(parent)
	l.own = leaseContext{ctx, l}
	l.ctx, l.cancel, l.callerDone = &l.own, cancel, parent.Done()
}

// limitHold arms the timer of the policy's MaxHold.
func (l *Lease) limitHold() {
	if l.policy.MaxHold > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.state == held {
			l.limit(l.policy.MaxHold)
		}
	}
}

// limit has the lease end after max, if that is not zero. The caller holds mu.
func (l *Lease) limit(max time.Duration) {
	if max > 0 {
		l.maxHold = time.AfterFunc(max, l.endMaxHold)
	}
}

// Context returns the context that Acquire has returned: the one to run the work with. It is a
// child of the context that Acquire was called with. It ends
//
//   - with a cause that Is ErrLost, when the lock is lost: before somebody else can have it,
//     unless Redis has forgotten it or it was released by force;
//   - with the cause ErrMaxHold, when the policy's MaxHold has passed;
//   - with the cause ErrReleased, at the release;
//   - with its parent.
//
// The context of a nil Lease has ended, with the cause ErrLost: no work runs under a lock that
// is not there.
func (l *Lease) Context() context.Context {
	if l == nil {
		return noLease
	}
	return l.ctx
}

// noLease is the context of a nil Lease.
var noLease = func() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(ErrLost)
	return ctx
}()

// Key returns what is locked: the policy's prefix and the key. For several keys it returns all
// of them, sorted and joined by ", ", for people to read. For a nil Lease it is empty.
func (l *Lease) Key() string {
	if l == nil {
		return ""
	}
	return l.ref.Key
}

// Fence returns a positive number that strictly increases from one holder of the key to the
// next. It is for resources that refuse a number lower than they have seen. It says nothing
// else: it does not count holders. A lease that has joined another one (Policy.Reentrant) has
// that one's fence.
//
// Fences follow the clock of Redis's server. They do not grow if that clock is set back by a
// step while nobody holds the key. Never set it back: slew it.
//
// Fence is 0 where no lock is held: the policy failed open or is in shadow, or a setting says
// off (AllowOff). It is also 0 on a quorum, for a nil Lease, and for several keys, each of
// which has its own: see FenceOf.
func (l *Lease) Fence() int64 {
	if l == nil {
		return 0
	}
	return l.fence
}

// Valid reports whether this lease still holds the lock, and will for some 50 ms at least.
// Call it right before a side effect. It asks the machine's clocks and not Redis. It takes the
// larger of the times that passed on the monotonic and the wall clock, so it notices that the
// process or the whole machine was stopped. Once Valid is false, it stays false. It is false
// after the release, and when MaxHold has passed. If the policy failed open or is in shadow,
// or a setting says off, it is true until then: no lock can be lost. It is false for a nil
// Lease.
func (l *Lease) Valid() bool {
	return l != nil && l.has.trusted() && l.holds(held)
}

// ValidUntil returns when the lock can no longer be relied on, if no renewal comes before. For
// several keys it is the earliest of their times. The lease's context ends before that, by a
// tenth of the TTL and at least by 50 ms. ValidUntil is the zero time where the policy failed
// open or is in shadow, or a setting says off, and for a nil Lease.
func (l *Lease) ValidUntil() time.Time {
	if l == nil {
		return time.Time{}
	}
	left, ok := l.has.remains(l)
	if !ok {
		return time.Time{}
	}
	return time.Now().Add(left)
}

// promised is the last promise of the lease's time, if it has a lock of its own. The caller
// holds mu.
func (l *Lease) promised() promise {
	if l.state == held || l.state == overHeld {
		return l.tenure().promise
	}
	return l.last
}

// end ends the lease's trust, once. The caller holds mu.
func (l *Lease) end(s state, cause error) {
	own := l.tenure() != nil
	if own {
		l.last = l.promised()
	}
	l.state = s
	l.endContext(cause)
	if l.maxHold != nil {
		l.maxHold.Stop()
	}
	if s == lost || s == overHeld && !own { // there is nothing to release
		l.locker.forget(l)
	}
}

// endContext ends the lease's context. The caller's, from which it comes, may panic when it is asked to forget it. The lease's has ended
// by then, and the lock is to be given back all the same.
func (l *Lease) endContext(cause error) {
	defer func() { _ = recover() }()
	l.cancel(cause)
}

// endMaxHold tells the work to stop. The lock stays until the release, or
// until its TTL has passed: it is not renewed any more.
func (l *Lease) endMaxHold() {
	l.mu.Lock()
	was := l.state
	if was == held {
		l.end(overHeld, ErrMaxHold)
		if t := l.tenure(); t != nil {
			t.end(tenureUnrenewed)
		}
	}
	l.mu.Unlock()
	if was == held {
		l.locker.log.Warn("lockmw: lock was held for longer than MaxHold; its work was told to stop", "name", l.policy.Name, "key", l.ref.Key)
		l.happened(EventStuck, ErrMaxHold)
		l.tellLater(EventStuck, ErrMaxHold)
	}
}

// A holding is what a Lease has, by how it came to be:
//
//   - *tenure: a lock of its own;
//   - joined: a part in the lock of another lease, which it has joined (Policy.Reentrant);
//   - *bundle: several locks, each with a lease of its own (AcquireAll);
//   - nothing: no lock, since Redis could not be reached (Policy.FailOpen), or a live setting says off;
//   - *shadow: no lock, and a forecast of what would have come of one (Policy.Shadow).
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

type nothing struct{ off bool }

func (nothing) trusted() bool { return true }

func (nothing) remains(*Lease) (left time.Duration, ok bool) { return 0, false }

func (nothing) reliesOn() []*Lease { return nil }

func (nothing) release(_ context.Context, l *Lease) error {
	l.finish()
	l.locker.forget(l)
	l.unreported.Store(true)
	return nil
}

// isOff reports whether the lease has no lock because a live setting says off.
func (l *Lease) isOff() bool {
	owner := l.owner()
	if owner == nil {
		return false
	}
	has, _ := owner.has.(nothing)
	return has.off
}

// runsWithout reports whether the lease has no lock, because its policy failed open or a live setting says off.
func (l *Lease) runsWithout() bool {
	_, ok := l.has.(nothing)
	return ok
}

// heldBy returns the lease by which ctx holds the lock called key, or nil; shadowed is one in shadow by which it would hold it.
func (l *Locker) heldBy(ctx context.Context, key string) (holder, shadowed *Lease) {
	for lease, _ := FromContext(ctx); lease != nil; lease = lease.outer {
		if lease.locker != l {
			continue
		}
		if s := lease.inShadow(); s != nil {
			if shadowed == nil && slices.Contains(s.names, key) && lease.holds(held, overHeld) {
				shadowed = lease
			}
			continue
		}
		if lease.ref.Key != key || lease.isOff() { // the lock may be somebody else's, and another call may not be off
			continue
		}
		if owner := lease.owner(); owner != nil && owner.holds(held, overHeld) {
			return owner, shadowed
		}
	}
	return nil, shadowed
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

// FromContext returns the lease that ctx belongs to. It finds one in a handler behind a
// middleware or an interceptor, in the function that WithLock runs, and with the context that
// Acquire returned. Of nested leases it returns the innermost. The lease may have ended. If
// there is no lease, it returns nil and false.
func FromContext(ctx context.Context) (*Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	return l, ok
}
