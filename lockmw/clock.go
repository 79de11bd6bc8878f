package lockmw

import "time"

// epoch is what instants count their monotonic time from.
var epoch = time.Now()

// An instant is one moment on both clocks of the machine. Go's monotonic
// clock stops while a virtual machine is suspended (golang/go#24595), and the
// wall clock can be set; a lease must not outlive its TTL on either.
type instant struct {
	mono time.Duration // since epoch
	wall int64         // Unix, ns
}

func now() instant { return instantOf(time.Now()) }

// instantOf is t, which time.Now has returned.
func instantOf(t time.Time) instant {
	return instant{mono: t.Sub(epoch), wall: t.UnixNano()}
}

// since is the time that passed from earlier to i, on whichever clock more of
// it passed.
func (i instant) since(earlier instant) time.Duration {
	return max(i.mono-earlier.mono, time.Duration(i.wall-earlier.wall))
}

// monoOf is t, which time.Now has returned, on the monotonic clock alone: ns since
// epoch, for what is kept in an atomic. It is 0 for the zero time.
func monoOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(epoch))
}

// timeOf is the time of which monoOf has returned mono. Its wall clock is that of a
// machine which nobody has suspended or set: it is to be compared, and not shown.
func timeOf(mono int64) time.Time {
	if mono == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(mono))
}
