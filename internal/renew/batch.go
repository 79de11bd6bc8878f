package renew

import (
	"context"
	"time"

	"github.com/lockmw/kit/internal/store"
)

const (
	batchSize  = 100 // renewals
	flightsMax = 4   // batches of one schedule in flight

	// A renewal may come before its time where another one is due: by a rideShare of its
	// pause, and by rideAlong at most. The renewals of 10,000 leases of 30 s took 10 % of
	// a core each by itself, and 2 % so.
	rideShare = 20
	rideAlong = 50 * time.Millisecond
)

// A batch is renewals that go out in one call of Store.Renew.
type batch struct {
	renewals []*Renewal
	first    time.Duration // the timeout of the first: all others have about the same
	shortest time.Duration // of their timeouts
	landed   chan struct{} // closed when it is not in flight any more
}

// fly sends what is due, on the goroutine of the schedule's timer.
func (w *Watchdog) fly(s *schedule) {
	w.mu.Lock()
	s.wake.Store(never)
	w.collect()
	if w.stopped || s.flights >= flightsMax {
		w.mu.Unlock()
		return
	}
	s.flights++
	w.running.Add(1)
	defer w.running.Done()
	for b := w.take(s); b != nil; b = w.take(s) {
		w.arm(s) // more may be due than one batch carries
		w.mu.Unlock()
		w.send(b)
		w.mu.Lock()
	}
	s.flights--
	w.arm(s)
	w.mu.Unlock()
}

// take takes up to batchSize due renewals off a schedule's agenda, for one batch, and those
// that ride along; or returns nil. All have about the same time for it: the batch ends with
// the first whose time is over. The caller holds mu, and arms the schedule then.
func (w *Watchdog) take(s *schedule) *batch {
	var b *batch
	var others []*Renewal // with other timeouts
	for now := w.now(); len(s.agenda) > 0 && !w.stopped && !b.isFull() && len(others) < batchSize; {
		r := s.agenda[0]
		if r.due > now && (b == nil || r.due > now+r.early) {
			break
		}
		s.pop()
		timeout, cutOff := r.item.Terms()
		switch {
		case timeout == 0: // it is over
		case cutOff && s == &w.sound:
			w.cut.push(r)
			w.arm(&w.cut)
		case b == nil:
			b = &batch{first: timeout, shortest: timeout, landed: make(chan struct{})}
			b.add(r, timeout)
		case timeout < b.first/2 || timeout > 2*b.first:
			others = append(others, r)
		default:
			b.add(r, timeout)
		}
	}
	for _, r := range others {
		s.push(r)
	}
	return b
}

func (b *batch) add(r *Renewal, timeout time.Duration) {
	r.batch = b
	b.renewals = append(b.renewals, r)
	b.shortest = min(b.shortest, timeout)
}

// isFull reports whether there is a batch that has no room.
func (b *batch) isFull() bool { return b != nil && len(b.renewals) == batchSize }

// send has a batch renewed, and tells its items.
func (w *Watchdog) send(b *batch) {
	sent := time.Now()
	asks := make([]store.Renewal, len(b.renewals))
	for i, r := range b.renewals {
		asks[i].Ref = r.item.Ask()
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.shortest)
	w.store.Renew(ctx, asks)
	cancel()

	pauses := make([]time.Duration, len(b.renewals)) // until the next renewal; 0: there is none
	for i, r := range b.renewals {
		pauses[i] = r.item.Renewed(sent, asks[i])
	}

	w.mu.Lock()
	now := w.now()
	for i, r := range b.renewals {
		r.batch = nil
		if pauses[i] > 0 && !r.removed {
			r.plan(now, pauses[i])
			w.sound.push(r)
		}
	}
	w.arm(&w.sound)
	w.mu.Unlock()
	close(b.landed)
}
