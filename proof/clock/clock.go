// Package clock reads a clock that all processes of one machine share, so that
// what one of them saw can be put in order with what another saw.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_MONOTONIC, counted from a point that is the same for all
// processes of this machine. It never goes back and nobody sets it.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // POSIX systems have this clock
	}
	return time.Duration(ts.Nano())
}

// Of translates a time of this process, such as a lease's end: a time that
// carries Go's monotonic reading by that reading, another by the wall clock.
func Of(t time.Time) time.Duration { return Now() + time.Until(t) }
