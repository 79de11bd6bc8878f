package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/mono"
)

// An instant is one moment on both clocks of the machine. Go's monotonic
// clock stops while a virtual machine is suspended (golang/go#24595), and the
// wall clock can be set; a lease must not outlive its TTL on either.
type instant struct {
	mono int64 // see package mono, ns
	wall int64 // Unix, ns
}

func now() instant { return instantOf(time.Now()) }

// instantOf is t, which time.Now has returned.
func instantOf(t time.Time) instant {
	return instant{mono: mono.Of(t), wall: t.UnixNano()}
}

// since is the time that passed from earlier to i, on whichever clock more of
// it passed.
func (i instant) since(earlier instant) time.Duration {
	return time.Duration(max(i.mono-earlier.mono, i.wall-earlier.wall))
}
