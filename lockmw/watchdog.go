package lockmw

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

const (
	batchSize  = 100 // renewals in one pipeline
	flightsMax = 4   // pipelines under way at the same time
	stuckAfter = 10  // TTLs

	confirmAfter    = 100 * time.Millisecond // short turns end without a renewal
	minRenewTimeout = 20 * time.Millisecond
	maxRenewTimeout = time.Second // what a Release may have to wait for
	minRetryPause   = 25 * time.Millisecond
	maxRetryPause   = 100 * time.Millisecond
)

// A watchdog renews the leases of one Locker: all that are due together go in
// one pipeline. It has no goroutine while nothing is due.
type watchdog struct {
	store store.Store

	mu      sync.Mutex
	agenda  agenda // of held leases that are not in a flight
	timer   *time.Timer
	wake    time.Time // when timer fires; zero: it is not armed
	flights int
	stopped bool
	running sync.WaitGroup
}

// A renewal is what the watchdog knows of a lease, guarded by its mutex.
type renewal struct {
	due    time.Time
	index  int           // in the agenda
	listed bool          // in the agenda
	over   bool          // removed: never to be listed again
	flight chan struct{} // closed at the end of the flight it is in
}

func newWatchdog(s store.Store) *watchdog { return &watchdog{store: s} }

// renewAfter is a third of the TTL, give or take a tenth of that, so that
// leases that began together do not stay in step.
func renewAfter(ttl time.Duration) time.Duration {
	third := ttl / 3
	return third - third/10 + rand.N(third/5)
}

// firstRenewal of a pushed grant comes soon: it confirms the grant, and
// extends the short TTL that the hand-over came with.
func firstRenewal(g grant) time.Duration {
	if g.pushed {
		return min(confirmAfter, g.ttl/3)
	}
	return renewAfter(g.ttl)
}

// add has l renewed after pause for the first time.
func (d *watchdog) add(l *Lease, pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list(l, time.Now().Add(pause))
}

// list puts l on the agenda. The caller holds mu.
func (d *watchdog) list(l *Lease, due time.Time) {
	r := &l.renewal
	if r.over || d.stopped {
		return
	}
	r.due, r.listed = due, true
	heap.Push(&d.agenda, l)
	d.arm()
}

// remove ends the renewal of l: when it returns, none is under way.
func (d *watchdog) remove(l *Lease) {
	d.mu.Lock()
	r := &l.renewal
	r.over = true
	if r.listed {
		heap.Remove(&d.agenda, r.index)
		r.listed = false
	}
	flight := r.flight
	d.mu.Unlock()
	if flight != nil {
		<-flight
	}
}

// stop ends all renewals and waits for the flights.
func (d *watchdog) stop() {
	d.mu.Lock()
	d.stopped = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.mu.Unlock()
	d.running.Wait()
}

// arm sets the timer to the first lease on the agenda, if that comes before
// what it is set to. The caller holds mu.
func (d *watchdog) arm() {
	if len(d.agenda) == 0 || d.stopped || d.flights >= flightsMax {
		return
	}
	first := d.agenda[0].renewal.due
	if !d.wake.IsZero() && !first.Before(d.wake) {
		return
	}
	d.wake = first
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(first), d.fly)
		return
	}
	d.timer.Reset(time.Until(first))
}

// fly renews what is due, on the timer's goroutine.
func (d *watchdog) fly() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wake = time.Time{}
	if d.stopped || d.flights >= flightsMax {
		return
	}
	d.flights++
	d.running.Add(1)
	defer d.running.Done()
	for batch := d.take(); len(batch) > 0; batch = d.take() {
		d.arm() // more may be due than one flight carries
		d.mu.Unlock()
		d.renew(batch)
		d.mu.Lock()
	}
	d.flights--
	d.arm()
}

// take takes up to batchSize due leases off the agenda, for one flight. The
// caller holds mu.
func (d *watchdog) take() []*Lease {
	var batch []*Lease
	var flight chan struct{}
	for t := time.Now(); len(batch) < batchSize && len(d.agenda) > 0 && !d.stopped; {
		l := d.agenda[0]
		if l.renewal.due.After(t) {
			break
		}
		if flight == nil {
			flight = make(chan struct{})
		}
		heap.Pop(&d.agenda)
		l.renewal.listed, l.renewal.flight = false, flight
		batch = append(batch, l)
	}
	return batch
}

// renew is one flight.
func (d *watchdog) renew(batch []*Lease) {
	sent := now()
	timeout := maxRenewTimeout
	asks := make([]store.Renewal, 0, len(batch))
	asked := batch[:0:0]
	for _, l := range batch {
		if left, ok := l.toRenew(sent); ok {
			timeout = min(timeout, l.policy.TTL/6, left)
			asks = append(asks, store.Renewal{Ref: l.ref})
			asked = append(asked, l)
		}
	}
	if len(asks) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), max(timeout, minRenewTimeout))
		d.store.Renew(ctx, asks)
		cancel()
	}
	pauses := make(map[*Lease]time.Duration, len(asked))
	for i, l := range asked {
		if pause, again := l.renewed(sent, asks[i]); again {
			pauses[l] = pause
		}
	}

	d.mu.Lock()
	flight := batch[0].renewal.flight
	for _, l := range batch {
		l.renewal.flight = nil
		if pause, again := pauses[l]; again {
			d.list(l, time.Now().Add(pause))
		}
	}
	d.mu.Unlock()
	close(flight)
}

// toRenew reports whether the lease is still to be renewed, and how long it
// can be trusted.
func (l *Lease) toRenew(at instant) (left time.Duration, ok bool) {
	if !l.trusted(false) {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant.left(at), l.state == held
}

// renewed takes in the answer to a renewal that was sent at sent, and says
// when the next one is due, if any.
func (l *Lease) renewed(sent instant, r store.Renewal) (pause time.Duration, again bool) {
	l.mu.Lock()
	if l.state != held {
		l.mu.Unlock()
		return 0, false
	}
	switch {
	case r.Err != nil:
		l.mu.Unlock()
		l.observe(EventRenewalFailed, r.Err)
		return minRetryPause + rand.N(maxRetryPause-minRetryPause), true
	case !r.Held:
		l.end(lost, ErrLost)
		l.mu.Unlock()
		l.reportLost(errNotHeld)
		return 0, false
	}
	l.grant = grant{fence: l.fence, since: sent, ttl: l.policy.TTL}
	left := l.grant.left(now())
	if left > 0 {
		l.expiry.Reset(left)
	}
	stuck := time.Since(l.start) >= l.stuckAt
	if stuck {
		l.stuckAt += stuckAfter * l.policy.TTL
	}
	l.mu.Unlock()
	if left <= 0 { // the answer took longer than the TTL
		return 0, l.trusted(false)
	}
	l.observe(EventRenewed, nil)
	if stuck {
		l.locker.log.Warn("lockmw: lock is held for long; is its work stuck?", "key", l.ref.Key, "held", time.Since(l.start))
		l.observe(EventStuck, nil)
	}
	return renewAfter(l.policy.TTL), true
}

// An agenda is a heap of leases, those due first on top.
type agenda []*Lease

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].renewal.due.Before(a[j].renewal.due) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].renewal.index, a[j].renewal.index = i, j
}
func (a *agenda) Push(x any) {
	l := x.(*Lease)
	l.renewal.index = len(*a)
	*a = append(*a, l)
}
func (a *agenda) Pop() any {
	old := *a
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return l
}
