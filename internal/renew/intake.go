package renew

import "sync"

// An intake has the renewals of some of the keys that are new to the Watchdog. Most are over
// long before they are due: such a renewal comes and goes here, in an intake that others
// hardly use, and never meets the mutex and the heap that all share. When the timer fires,
// the Watchdog collects what is in the intakes.
//
// So an intake may have a renewal only while that timer fires in time for it: Add looks at
// the time after it has put the renewal here, and collect comes after the timer's time was
// withdrawn. Whichever of the two is second sees the other.
type intake struct {
	mu       sync.Mutex
	renewals []*Renewal
}

// put puts r into the intake.
func (in *intake) put(r *Renewal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	r.fresh, r.index = true, len(in.renewals)
	in.renewals = append(in.renewals, r)
}

// remove takes r out of the intake, and reports whether it was there.
func (in *intake) remove(r *Renewal) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !r.fresh {
		return false
	}
	r.fresh = false
	last := len(in.renewals) - 1
	moved := in.renewals[last]
	in.renewals[r.index], moved.index = moved, r.index
	in.renewals[last], in.renewals = nil, in.renewals[:last]
	return true
}

// collect puts all renewals that are in an intake on the agenda, but for those that were
// removed before they were added. The caller holds mu, and arms the timer then.
func (w *Watchdog) collect() {
	for in := range w.intakes.All() {
		in.mu.Lock()
		for i, r := range in.renewals {
			r.fresh, in.renewals[i] = false, nil
			if !r.removed {
				w.sound.push(r)
			}
		}
		in.renewals = in.renewals[:0]
		in.mu.Unlock()
	}
}
