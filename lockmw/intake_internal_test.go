package lockmw

import (
	"testing"
	"time"
)

// Tenures that are over before they are due leave nothing with the watchdog, and those
// that stay are renewed though they came after the timer was set.
func TestShortTurnsDoNotReachTheAgenda(t *testing.T) {
	keeping(t, &faraway{after: time.Millisecond}, func(l *Locker) {
		const n, ttl = 200, 3 * time.Second
		first, _ := watchedOver(l, 1, "f", ttl)
		stay, lost := watchedOver(l, n, "s", 2*ttl) // due later than the first
		gone, _ := watchedOver(l, n, "g", 2*ttl)
		for _, lease := range gone {
			l.watchdog.remove(lease.tenure)
		}
		d, left := l.watchdog, 0
		d.mu.Lock()
		if got := len(d.sound.agenda); got != 1 {
			t.Errorf("%d tenures on the agenda, want the first alone", got)
		}
		for in := range d.intakes.All() {
			in.mu.Lock()
			left += len(in.tenures)
			in.mu.Unlock()
		}
		d.mu.Unlock()
		if left != n {
			t.Errorf("%d tenures in the intakes, want the %d that stay", left, n)
		}
		time.Sleep(5 * ttl)
		if got := lost(); got > 0 || !first[0].Valid() {
			t.Errorf("%d of %d leases are lost", got, len(stay))
		}
	})
}

// What is to be renewed at once is, also where the watchdog has not collected it yet.
func TestANewTenureIsRenewedInAHurry(t *testing.T) {
	s := &faraway{after: time.Millisecond}
	keeping(t, s, func(l *Locker) {
		const ttl = 3 * time.Second
		watchedOver(l, 1, "f", ttl)
		later, _ := watchedOver(l, 2, "s", 2*ttl)
		l.watchdog.hurry(later[1].tenure)
		time.Sleep(10 * s.after)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.renewed["s1"] != 1 || len(s.renewed) != 1 {
			t.Errorf("renewed %v, want s1 once", s.renewed)
		}
	})
}
