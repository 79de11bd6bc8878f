package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
)

// When a tenure is renewed, and what comes of it: what the watchdog (internal/renew) asks a tenure, and tells it.

const (
	stuckAfter = 10 // TTLs

	confirmAfter    = 100 * time.Millisecond // a shorter turn needs no renewal
	minRenewTimeout = 20 * time.Millisecond
	maxRenewTimeout = time.Second // what a Release may have to wait for
	minRetryPause   = 25 * time.Millisecond
)

// Terms implements renew.Item. A tenure is renewed while it is held. The time for that is a
// sixth of the TTL, which leaves time for further attempts, and more after a failed one: a
// new connection over a slow network takes several round trips before the renewal goes out
// on it. It is at most what a Release may have to wait for.
func (t *tenure) Terms() (timeout time.Duration, cutOff bool) {
	t.mu.Lock()
	held, failures := t.state == tenureHeld, t.failures
	t.mu.Unlock()
	if !held {
		return 0, false
	}
	timeout = min(t.ttl/6, maxRenewTimeout) << min(failures, 1)
	return min(max(timeout, minRenewTimeout), maxRenewTimeout), t.locker.outage.Glance(t.ref.Key).Reach != outage.Reachable
}

// Ask implements renew.Item. The tenure is renewed for its TTL, or until it may be given
// back, if that is longer. After work that has failed, that may be sooner than the last grant
// ends: the tenure is trusted for no longer from now on, since the reply may be lost.
func (t *tenure) Ask() store.Ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	ref := t.ref
	ref.TTL = max(t.ttl, time.Until(t.stayTill()))
	asked := promise{now(), ref.TTL}
	if left := asked.left(asked.since); t.state == tenureHeld && left < t.promise.left(asked.since) {
		t.promise = asked
		t.expiry.Reset(left)
	}
	return ref
}

// Renewed implements renew.Item. It ends the tenure if the store says that it is gone, or gives
// no answer and a clock says that the trust is over; and extends the grant otherwise, counted from sent.
func (t *tenure) Renewed(sent time.Time, r store.Renewal) (pause time.Duration) {
	if r.Err == nil && !r.Held {
		t.lostInStore(t.whyNotHeld())
		return 0
	}
	t.mu.Lock()
	lease := t.holder
	switch {
	case t.state != tenureHeld:
		t.mu.Unlock()
		return 0
	case r.Err != nil:
		t.failures++
		pause = t.retryAfter()
		t.mu.Unlock()
		if lease != nil {
			lease.tellLater(EventRenewalFailed, r.Err)
		}
		if !t.holdsAt(now(), true) { // the machine was suspended, and the expiry timer with it
			return 0
		}
		return pause
	}
	t.failures = 0
	t.promise = promise{instantOf(sent), r.TTL}
	t.expiry.Reset(max(t.promise.left(now()), 0)) // 0: the answer took longer than the TTL
	stuck := lease != nil && lease.isStuck()
	t.mu.Unlock()
	if lease != nil {
		lease.tellLater(EventRenewed, nil)
	}
	if stuck {
		t.locker.log.Warn("lockmw: lock is held for long; is its work stuck?", "name", lease.policy.Name, "key", t.ref.Key, "held", time.Since(lease.start))
		lease.happened(EventStuck, nil)
		lease.tellLater(EventStuck, nil)
	}
	return renewAfter(t.ttl)
}

// isStuck reports whether a stuck event is due. The caller holds mu.
func (l *Lease) isStuck() bool {
	if time.Since(l.start) < l.stuckAt {
		return false
	}
	l.stuckAt += stuckAfter * l.policy.TTL
	return true
}

// retryAfter is the pause after a renewal that failed. It doubles from one to
// the next, up to a tenth of the TTL, so that many leases of a server that is
// away leave room for those of one that is not.
func (t *tenure) retryAfter() time.Duration {
	pause := minRetryPause << min(t.failures-1, 5)
	return retry.Jitter(min(pause, max(t.ttl/20, minRetryPause)))
}

// renewNow has what is held of key renewed at once.
func (l *Locker) renewNow(key string) {
	for _, t := range l.tenuresOf(key) {
		l.watchdog.RenewNow(&t.renewal)
	}
}
