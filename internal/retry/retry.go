// Package retry says when to try again: after intervals with jitter, so that those who
// wait for the same thing do not all ask at the same moments.
package retry

import (
	"math"
	"math/rand/v2"
	"time"
)

// Intervals walks the retry intervals of one call. An interval is drawn when it is
// needed, so a number of them without bound costs nothing.
type Intervals struct {
	interval time.Duration
	left     int       // intervals not drawn yet
	end      time.Time // of the interval that was drawn last
}

// Begin starts n intervals at start, each drawn from [interval, 2·interval), or goes on
// where another wait of the same budget has left them: then it does nothing. There is
// no bound where n is 0 or math.MaxInt.
func (i *Intervals) Begin(n int, interval time.Duration, start time.Time) {
	if i.interval > 0 {
		return
	}
	if n == 0 {
		n = math.MaxInt
	}
	*i = Intervals{interval: interval, left: n, end: start}
}

// After returns the end of the first interval that ends later than t, and
// last if no interval follows it. Once the intervals are used up it returns
// the end of the last one.
func (i *Intervals) After(t time.Time) (end time.Time, last bool) {
	for !i.end.After(t) && i.left > 0 {
		i.end = i.end.Add(Jitter(i.interval))
		i.left--
	}
	return i.end, i.left == 0
}

// Jitter draws from [d, 2·d).
func Jitter(d time.Duration) time.Duration { return d + rand.N(max(min(d, math.MaxInt64-d), 1)) }
