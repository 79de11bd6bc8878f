package lockmw

import "runtime"

// Waiting returns how many calls of Acquire wait for key in this process.
func Waiting(l *Locker, key string) int {
	return len(l.waiters.States(key))
}

// RenewAll has all leases renewed, and returns when they are.
func RenewAll(l *Locker) {
	d := l.watchdog
	d.mu.Lock()
	for _, lease := range d.sound.agenda {
		lease.renewal.due = lease.start // all the same: it is a heap still
	}
	d.mu.Unlock()
	d.fly(&d.sound)
	for flights := 1; flights > 0; runtime.Gosched() { // others may have helped
		d.mu.Lock()
		flights = d.sound.flights
		d.mu.Unlock()
	}
}
