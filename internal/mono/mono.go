// Package mono has moments on the monotonic clock as plain numbers: for what is kept in
// an atomic, and for what is compared with the wall clock.
package mono

import "time"

// epoch is what moments are counted from.
var epoch = time.Now()

// Of is t, which time.Now has returned, on the monotonic clock: ns since the program
// began. It is 0 for the zero time.
func Of(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(epoch))
}

// Time is the time of which Of has returned ns. Its wall clock is that of a machine
// which nobody has suspended or set: it is to be compared, and not shown.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(ns))
}
