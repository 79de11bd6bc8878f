package lockmw

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/mono"
	"github.com/lockmw/kit/internal/shards"
	"github.com/lockmw/kit/internal/store"
)

const (
	batchSize  = 100 // renewals in one pipeline
	flightsMax = 4   // pipelines of one schedule under way at the same time

	// A lease may be renewed before its time where another one is due: by a
	// rideShare of its pause, and by rideAlong at most. The renewals of 10,000
	// leases of 30 s took 10 % of a core each by itself, and 2 % so (check 16 of
	// the proof).
	rideShare = 20
	rideAlong = 50 * time.Millisecond
)

// A watchdog renews the leases of one Locker: all that are due together go in
// one pipeline. It has no goroutine while nothing is due.
//
// A pipeline lasts as long as the slowest of its servers. So in a Cluster the leases
// of a master that cannot be reached go by themselves: otherwise there would be no
// time left for those of the others.
type watchdog struct {
	store   store.Store
	intakes shards.Of[intake] // of tenures that are new

	mu      sync.Mutex
	sound   schedule // all that are not in the other one
	cut     schedule // leases that were due while their server could not be reached
	stopped bool
	running sync.WaitGroup
}

// A schedule is when leases are renewed that go together. The watchdog's mutex
// guards it; without that, wake may only be read.
type schedule struct {
	agenda  agenda // of held leases that are not in a flight
	timer   *time.Timer
	wake    atomic.Int64 // when timer fires, by mono.Of; 0: it is not armed
	flights int
}

// A renewal is what the watchdog knows of a tenure. It is guarded by the mutex of the
// tenure's intake while it is fresh, and by the watchdog's from then on.
type renewal struct {
	due    time.Time
	early  time.Duration // it may be renewed this much before, with others
	fresh  bool          // it is in its intake; guarded by the intake's mutex at all times
	index  int           // in the intake or the agenda
	listed *schedule     // whose agenda it is in, or nil
	over   bool          // removed: never to be listed again
	flight chan struct{} // closed at the end of the flight it is in
}

func newWatchdog(s store.Store) *watchdog { return &watchdog{store: s} }

// add has t renewed at due for the first time.
func (d *watchdog) add(t *tenure, due time.Time) {
	t.renewal.plan(t.began, due)
	d.intakes.Part(t.ref.Key).put(t)
	if d.sound.wakesBy(due) {
		return // as for most: the timer is set to the first of all that were held when it fired last
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.collect()
	d.arm(&d.sound)
}

// plan has the tenure renewed at due, as is known since at.
func (r *renewal) plan(at, due time.Time) {
	r.due, r.early = due, min(rideAlong, due.Sub(at)/rideShare)
}

// list puts t on the agenda again, to be renewed at due. The caller holds mu.
func (d *watchdog) list(t *tenure, at, due time.Time) {
	if t.renewal.over || d.stopped {
		return
	}
	t.renewal.plan(at, due)
	d.push(&d.sound, t)
	d.arm(&d.sound)
}

// push puts t on a schedule's agenda. The caller holds mu.
func (d *watchdog) push(s *schedule, t *tenure) {
	t.renewal.listed = s
	heap.Push(&s.agenda, t)
}

// hurry has t renewed now, unless it is in a flight already.
func (d *watchdog) hurry(t *tenure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.collect()
	if r := &t.renewal; r.listed != nil {
		r.due = time.Now()
		heap.Fix(&r.listed.agenda, r.index)
		d.arm(r.listed)
	}
}

// remove ends the renewal of t: when it returns, none is under way.
func (d *watchdog) remove(t *tenure) {
	if flight := d.drop(t); flight != nil {
		<-flight
	}
}

// drop ends the renewal of t, and returns what is closed when none is under way any more,
// or nil.
func (d *watchdog) drop(t *tenure) (flight <-chan struct{}) {
	if d.intakes.Part(t.ref.Key).drop(t) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &t.renewal
	r.over = true
	if r.listed != nil {
		heap.Remove(&r.listed.agenda, r.index)
		r.listed = nil
	}
	return r.flight
}

// stop ends all renewals and waits for the flights.
func (d *watchdog) stop() {
	d.mu.Lock()
	d.stopped = true
	for _, s := range []*schedule{&d.sound, &d.cut} {
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	d.mu.Unlock()
	d.running.Wait()
}

// arm sets a schedule's timer to the first lease on its agenda, if that comes before
// what it is set to. The caller holds mu.
func (d *watchdog) arm(s *schedule) {
	if len(s.agenda) == 0 || d.stopped || s.flights >= flightsMax {
		return
	}
	first := s.agenda[0].renewal.due
	if s.wakesBy(first) {
		return
	}
	s.wake.Store(mono.Of(first))
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(first), func() { d.fly(s) })
		return
	}
	s.timer.Reset(time.Until(first))
}

// wakesBy reports whether the timer is set to due or earlier.
func (s *schedule) wakesBy(due time.Time) bool {
	wake := s.wake.Load()
	return wake != 0 && wake <= mono.Of(due)
}

// fly renews what is due, on the timer's goroutine.
func (d *watchdog) fly(s *schedule) {
	d.mu.Lock()
	s.wake.Store(0)
	d.collect()
	if d.stopped || s.flights >= flightsMax {
		d.mu.Unlock()
		return
	}
	s.flights++
	d.running.Add(1)
	defer d.running.Done()
	for batch := d.take(s); len(batch) > 0; batch = d.take(s) {
		d.arm(s) // more may be due than one flight carries
		d.mu.Unlock()
		d.renew(batch)
		d.mu.Lock()
	}
	s.flights--
	d.arm(s)
	d.mu.Unlock()
}

// take takes up to batchSize due leases off a schedule's agenda, for one flight, and
// those that ride along. All have about the same time for it: a flight ends with
// the first whose time is over. The caller holds mu.
func (d *watchdog) take(s *schedule) []*tenure {
	var batch, others []*tenure
	var flight chan struct{}
	var timeout time.Duration
	for now := time.Now(); len(batch) < batchSize && len(others) < batchSize && len(s.agenda) > 0 && !d.stopped; {
		t := s.agenda[0]
		at := now
		if len(batch) > 0 {
			at = now.Add(t.renewal.early)
		}
		if t.renewal.due.After(at) {
			break
		}
		heap.Pop(&s.agenda)
		t.renewal.listed = nil
		if !t.renews() {
			continue // it was lost, or has reached MaxHold
		}
		if s == &d.sound && t.cutOff() {
			d.push(&d.cut, t)
			d.arm(&d.cut)
			continue
		}
		own := t.renewTimeout()
		if flight == nil {
			flight, timeout = make(chan struct{}), own
		}
		if own < timeout/2 || own > 2*timeout {
			others = append(others, t)
			continue
		}
		t.renewal.flight = flight
		batch = append(batch, t)
	}
	for _, t := range others {
		d.push(s, t)
	}
	return batch
}

// renew is one flight.
func (d *watchdog) renew(batch []*tenure) {
	sent := now()
	timeout := maxRenewTimeout
	asks := make([]store.Renewal, len(batch))
	for i, t := range batch {
		timeout = min(timeout, t.renewTimeout())
		asks[i].Ref = t.ask()
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	d.store.Renew(ctx, asks)
	cancel()

	pauses := make([]time.Duration, len(batch)) // until the next renewal; 0: there is none
	for i, t := range batch {
		pauses[i] = t.renewed(sent, asks[i])
	}

	d.mu.Lock()
	flight := batch[0].renewal.flight
	for i, t := range batch {
		t.renewal.flight = nil
		if pauses[i] > 0 {
			at := time.Now()
			d.list(t, at, at.Add(pauses[i]))
		}
	}
	d.mu.Unlock()
	close(flight)
}
