package lockmw

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/renew"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// A tenure is what a Locker holds in the store under one token. It begins with a grant of
// the store, is renewed, and ends with a release, or is lost. Leases of the Locker
// follow one another within it, and the store is not asked: passOn says when. A lock that
// several may hold, and one of a quorum, has one lease in its tenure.
//
// The tenure has what concerns the store: the token, how long the grant is valid, the
// renewals. A lease has what concerns the work: its context, MaxHold, its release, and
// what observers are told. One mutex guards the tenure and all its leases.
//
// Mutexes are taken in this order: the watchdog's (internal/renew, which calls Terms with it
// held), a tenure's, and then one of a ledger or of internal/waitqueue, which take no other.
// So whoever holds one of these calls no method of the watchdog. docs/architecture.md has
// all of them.
type tenure struct {
	locker    *Locker
	ref       store.Ref     // the key and the token; only its Fence changes, which mu guards
	ttl       time.Duration // the policy's
	began     time.Time     // when the news of the first grant came
	first     grant         // the grant that the tenure began with
	mayReturn bool          // a command of its claim without an answer may yet take the lock anew

	renewal renew.Renewal // the watchdog's

	mu     sync.Mutex // guards what follows
	state  tenureState
	holder *Lease // the lease that has the lock; nil while the lock passes from one to the next
	trust         // for how long the tenure can be relied on
	stays  []stay // how long leases want the key to stay taken, if it is given back sooner
}

// trust is for how long a tenure can be relied on.
type trust struct {
	promise              // the last one, by the acquire or a renewal
	expiry   *time.Timer // ends the tenure in time, whatever becomes of renewals
	failures int         // how many renewals have failed in a row
}

// A stay is the MinHold of a lease, of the tenure's or of one that has joined it.
type stay struct {
	of   *Lease
	till time.Time
}

type tenureState uint8

const (
	tenureHeld      tenureState = iota
	tenureUnrenewed             // its lease is over its MaxHold; it ends by the TTL, or with the release
	tenureLost                  // the store says that another has the lock, or nobody
	tenureExpired               // no renewal came through in time; the store may have the lock still
	tenureOver                  // it is given back, or about to be
)

// isLost reports whether the lock was lost, for either reason.
func (s tenureState) isLost() bool { return s == tenureLost || s == tenureExpired }

// newTenure returns the tenure that begins with c's grant, which came at began.
func newTenure(c *claim, g grant, began time.Time) *tenure {
	t := &tenure{locker: c.locker, ref: c.ref, ttl: c.policy.TTL, began: began, first: g, mayReturn: c.residue == inDoubt, trust: trust{promise: g.promise}}
	t.renewal = t.locker.watchdog.Renewal(t, t.ref.Key)
	t.ref.Fence, t.ref.Estimate = g.Fence, g.Estimate
	return t
}

// begin has the Locker know the tenure and its first lease, arms the timer, and hands the
// tenure to the watchdog. When it returns, the tenure may have ended already.
func (t *tenure) begin(lease *Lease) {
	t.locker.keep(lease) // first: what ends the tenure makes the Locker forget it
	t.mu.Lock()
	t.holder = lease
	if min := lease.policy.MinHold; min > 0 {
		t.stays = append(t.stays, stay{lease, t.began.Add(min)})
	}
	t.expiry = time.AfterFunc(t.promise.left(now()), t.expire)
	t.mu.Unlock()
	pause := t.firstRenewal()
	if t.locker.keepTenure(t) {
		pause = 0 // Redis is asked at once whether it has the lock still
	}
	t.locker.watchdog.Add(&t.renewal, t.began, pause)
	lease.limitHold()
}

// isHeld reports whether the tenure is held: it is renewed, and can pass its lock on, until it ends in whatever way.
func (t *tenure) isHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == tenureHeld
}

// isLost reports whether the tenure was lost.
func (t *tenure) isLost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state.isLost()
}

// localPass bounds the time for which a tenure passes the lock on without the store's
// knowing, counted from the tenure's first grant: renewals do not count anew. So a
// waiter elsewhere of whom the Locker was not told is overtaken for that long at most, and a store
// that has forgotten the lock is asked as soon as a renewal would ask it. LOCAL_FENCES in
// lock.lua is the same second.
func localPass(ttl time.Duration) time.Duration { return min(time.Second, ttl/3) }

// passOn gives the lock to the next waiter of the Locker without the store's knowing,
// and reports whether it could. If it could not, no lease has the lock, and the caller must
// end the tenure. Only the tenure of a claim that had a waiter can: others never became the
// queue's holder (waitqueue.Set.Take). It may
//
//   - with a store that has fences and whose releases can offer the lock to a waiter, for a mutex, without MinHold, and
//     where no command of the tenure's claim may still be carried out;
//   - where the next waiter came before those of any other Locker, wants the same TTL, and does
//     not stand in the store's queue;
//   - while the Locker has a subscription, and has missed no message about others who wait
//     since the tenure's first command was sent;
//   - for localPass, and while the last grant has half of the policy's TTL left (one that came
//     by a message has less, until it is renewed);
//   - where the next fence is lower than what the store's clock says by now. The store makes each
//     new fence from its clock, so its next one is higher than all that were given here, even if
//     this process ends now and the store is never told of them.
func (t *tenure) passOn(at time.Time) bool {
	fence, ok := t.nextFence(at)
	return ok && t.locker.waiters.PassOn(t.ref.Key, t, waitqueue.Grant{Grant: store.Grant{Fence: fence}, Token: t.ref.Token, TTL: t.ref.TTL, Tenure: t})
}

// nextFence ends the time of the lease that had the lock, and counts the fence on for the next
// one, if the lock may be passed on at that moment.
func (t *tenure) nextFence(at time.Time) (fence int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder = nil
	now := instantOf(at)
	switch {
	case t.state != tenureHeld, t.mayReturn, t.ref.Least > 0, len(t.stays) > 0, t.ref.Fence == 0, t.ref.Kind != store.Kind{}:
		return 0, false
	case !t.locker.relays, !t.locker.subscriber.hasHeardSince(t.first.session):
		return 0, false
	case now.since(t.first.since) > localPass(t.ttl), t.promise.ttl-now.since(t.promise.since) < t.ttl/2, t.promise.left(now) <= 0:
		return 0, false
	}
	passed := at.Sub(t.began) // less than has passed on the store's clock since the answer
	if fence = t.ref.Fence + 1; fence > min(t.first.Fence, t.first.Clock)+(passed-passed/100).Microseconds() {
		return 0, false
	}
	t.ref.Fence = fence
	return fence, true
}

// take makes lease the one that has the lock, unless the tenure was lost meanwhile.
func (t *tenure) take(lease *Lease) bool {
	t.locker.keep(lease)
	t.mu.Lock()
	ok := t.state == tenureHeld && t.promise.left(now()) > 0
	if ok {
		t.holder = lease
	}
	t.mu.Unlock()
	if !ok {
		t.locker.forget(lease)
		return false
	}
	lease.limitHold()
	return true
}

// decline is for a lock that was passed on to a claim which does not want it any more, or
// which it came too late for. It does not wait for the store.
func (t *tenure) decline() {
	if t.passOn(time.Now()) {
		return
	}
	t.over()
	t.locker.watchdog.RemoveNoWait(&t.renewal)
	t.locker.waiters.ForgetHolder(t.ref.Key, t)
	t.cleanUp()
	t.locker.forgetTenure(t)
}

// over notes that the tenure is given back now.
func (t *tenure) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == tenureHeld || t.state == tenureUnrenewed {
		t.end(tenureOver)
	}
}

// cleanUp has the janitor remove what may be left of the tenure in the store: for decline the
// lock itself; otherwise one that was lost, which the store may keep if a renewal came through
// whose answer did not, or at the minority of a quorum's nodes.
func (t *tenure) cleanUp() {
	t.mu.Lock()
	till, ref, certain := t.stayTill(), t.ref, t.state != tenureExpired && !t.mayReturn
	t.mu.Unlock()
	t.locker.janitor.AddAt(till, ref, certain)
}

// end moves the tenure to s, on its way from held to unrenewed, lost, expired or over. Once it is
// over, its ref and stays do not change any more, and are read without mu. The caller
// holds mu.
func (t *tenure) end(s tenureState) {
	t.state = s
	t.expiry.Stop()
	if s == tenureUnrenewed {
		t.expiry.Reset(t.promise.ttl - now().since(t.promise.since))
	}
	if s.isLost() {
		t.locker.forgetTenure(t)
	}
	switch s { // whoever rests behind it asks by itself
	case tenureUnrenewed:
		t.locker.waiters.Overstays(t.ref.Key, t)
	case tenureLost, tenureExpired:
		t.locker.waiters.ForgetHolder(t.ref.Key, t)
	case tenureHeld, tenureOver:
	}
}

// lose ends the tenure as lost or expired, and the lease that has the lock, with a cause that Is ErrLost. It returns that lease, or
// nil. The caller holds mu.
func (t *tenure) lose(s tenureState, cause error) *Lease {
	t.end(s)
	if t.holder != nil && t.holder.state == held {
		t.holder.end(lost, cause)
		return t.holder
	}
	return nil
}

// expire is called by the expiry timer: when the trust in a tenure that is held ends, or when
// the TTL of one that is not renewed has passed, and the store has forgotten it.
func (t *tenure) expire() {
	if t.holdsAt(now(), true) {
		return
	}
	t.mu.Lock()
	gone, lease := t.state == tenureUnrenewed, t.holder
	t.mu.Unlock()
	if gone {
		t.locker.forgetTenure(t)
		if lease != nil {
			t.locker.forget(lease)
		}
	}
}

// holdsAt reports whether the lock can be relied on at that moment, and ends the tenure if not. A
// timer that fired although a renewal moved the end is armed anew.
func (t *tenure) holdsAt(at instant, rearm bool) bool {
	t.mu.Lock()
	if t.state != tenureHeld {
		t.mu.Unlock()
		return false
	}
	if left := t.promise.left(at); left > 0 {
		if rearm {
			t.expiry.Reset(left)
		}
		t.mu.Unlock()
		return true
	}
	lease := t.lose(tenureExpired, ErrLost)
	t.mu.Unlock()
	if lease != nil {
		lease.reportLost(errExpired)
	}
	return false
}

func (t *tenure) trusted() bool { return t.holdsAt(now(), false) }

func (t *tenure) remains(l *Lease) (left time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.promised()
	return validity(p.ttl) - now().since(p.since), true
}

func (*tenure) reliesOn() []*Lease { return nil }

// lostBy is the cause with which a lease's context ends for a reason that a tenure was lost for.
func lostBy(reason error) error {
	if errors.Is(reason, ErrLost) {
		return reason
	}
	return ErrLost
}

// lostInStore ends the tenure because the store says that another has the lock, or nobody.
func (t *tenure) lostInStore(reason error) {
	t.mu.Lock()
	if t.state != tenureHeld {
		t.mu.Unlock()
		return
	}
	lease := t.lose(tenureLost, lostBy(reason))
	t.mu.Unlock()
	if lease != nil {
		lease.reportLost(reason)
	}
}

// lease returns the one that has the lock, or nil.
func (t *tenure) lease() *Lease {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holder
}

// stay keeps the key taken until till for lease, if it is given back sooner. base is the lease that lease works
// under. If the lock has left it meanwhile, the stay is over with it: it must not be charged to the lease that
// follows in the tenure. stay reports whether the key is taken for longer than it was.
func (t *tenure) stay(lease, base *Lease, till time.Time) (longer bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != base || t.state != tenureHeld && t.state != tenureUnrenewed {
		return false
	}
	longer = till.After(t.stayTill())
	t.stays = append(t.stays, stay{lease, till})
	return longer
}

// cancelStay has the key not stay taken for lease.
func (t *tenure) cancelStay(lease *Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != tenureOver { // of a lost one something may be left, which is removed then
		t.stays = slices.DeleteFunc(t.stays, func(s stay) bool { return s.of == lease })
	}
}

// stayTill is until when the key stays taken, if it is given back sooner; zero: it does not.
// The caller holds mu.
func (t *tenure) stayTill() (till time.Time) {
	for _, s := range t.stays {
		if s.till.After(till) {
			till = s.till
		}
	}
	return till
}

// staysTill is stayTill for who does not hold mu. A tenure that is given back may not be over, or lost: then a nested lease may yet change it.
func (t *tenure) staysTill() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stayTill()
}

// leftAt is how long the last grant can be trusted from at.
func (t *tenure) leftAt(at time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.promise.left(instantOf(at))
}

// firstRenewal of a published grant comes soon: it confirms the grant, and
// extends the short TTL that the hand-over came with.
func (t *tenure) firstRenewal() time.Duration {
	if t.first.origin == fromMessage {
		return min(confirmAfter, t.first.ttl/3)
	}
	return renewAfter(t.ttl)
}

// renewAfter is a third of the TTL, give or take a tenth of that, so that
// leases that began together do not stay in step.
func renewAfter(ttl time.Duration) time.Duration {
	third := ttl / 3
	return third - third/10 + rand.N(third/5)
}
