package lockmw

import (
	"sync"
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

// timers are timers that are used again and again: a new one takes 250 bytes, in each wait, and the turn behind it 640 in all.
type timers struct {
	unused sync.Pool // of *time.Timer, which are stopped
}

// take returns a timer that is stopped, so nothing comes through its channel before it is set (since Go 1.23).
func (t *timers) take() *time.Timer {
	if timer, ok := t.unused.Get().(*time.Timer); ok {
		return timer
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// putBack takes back a timer that nobody uses any more.
func (t *timers) putBack(timer *time.Timer) {
	timer.Stop()
	t.unused.Put(timer)
}

// An end is a moment to come. It has come as soon as so much time has passed on either clock: what is to end does not go on because the
// machine was suspended. The zero end never comes.
type end struct {
	from instant
	left time.Duration // from then on
	at   time.Time     // when that is, for people and for timers, which stand still with the machine
}

// endIn is the end that comes when left has passed since t, which time.Now has returned.
func endIn(t time.Time, left time.Duration) end {
	return end{from: instantOf(t), left: left, at: t.Add(left)}
}

// isNever reports whether it is the zero end.
func (e end) isNever() bool { return e.at.IsZero() }

// isOver reports whether the end has come.
func (e end) isOver(now instant) bool { return !e.isNever() && e.remains(now) <= 0 }

// remains is the time from now until an end that comes; 0 or less: it has come.
func (e end) remains(now instant) time.Duration { return e.left - now.since(e.from) }
