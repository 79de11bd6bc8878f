package lockmw

import "sync"

// An intake has the tenures for some of the keys that are new to the watchdog. Most are
// over long before a renewal is due: such a tenure comes and goes here, in an intake
// that others hardly use, and never meets the mutex and the heap that all tenures
// share. When the watchdog's timer fires it collects what is in the intakes.
//
// So an intake may have a tenure only while that timer fires in time for it: add looks
// at the time after it has put the tenure here, and collect comes after the timer's
// time was withdrawn. Whichever of the two is second sees the other.
type intake struct {
	mu      sync.Mutex
	tenures []*tenure
}

// put puts t into the intake.
func (in *intake) put(t *tenure) {
	in.mu.Lock()
	defer in.mu.Unlock()
	t.renewal.fresh, t.renewal.index = true, len(in.tenures)
	in.tenures = append(in.tenures, t)
}

// drop takes t out of the intake, and reports whether it was there.
func (in *intake) drop(t *tenure) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !t.renewal.fresh {
		return false
	}
	t.renewal.fresh = false
	last := len(in.tenures) - 1
	moved := in.tenures[last]
	in.tenures[t.renewal.index], moved.renewal.index = moved, t.renewal.index
	in.tenures[last], in.tenures = nil, in.tenures[:last]
	return true
}

// collect puts all tenures that are in an intake on the agenda. The caller holds mu, and
// arms the timer then.
func (d *watchdog) collect() {
	for in := range d.intakes.All() {
		in.mu.Lock()
		for i, t := range in.tenures {
			t.renewal.fresh, in.tenures[i] = false, nil
			d.push(&d.sound, t)
		}
		in.tenures = in.tenures[:0]
		in.mu.Unlock()
	}
}
