package lockmw

import (
	"math"
	"math/rand/v2"
	"time"
)

// A pace walks the jittered retry intervals of one call of Acquire. Intervals
// are drawn when they are needed, so Forever costs nothing.
type pace struct {
	interval time.Duration
	left     int       // intervals not drawn yet
	end      time.Time // of the interval that was drawn last
}

// begin starts the intervals at start, or goes on where another wait of the
// same budget has left them. Without retries of its own the policy's other
// bounds end the wait.
func (p *pace) begin(policy Policy, start time.Time) {
	if p.interval > 0 {
		return
	}
	left := policy.Retries
	if left == 0 {
		left = Forever
	}
	*p = pace{interval: policy.RetryInterval, left: left, end: start}
}

// after returns the end of the first interval that ends later than t, and
// last if no interval follows it. Once the intervals are used up it returns
// the end of the last one.
func (p *pace) after(t time.Time) (end time.Time, last bool) {
	for !p.end.After(t) && p.left > 0 {
		p.end = p.end.Add(jitter(p.interval))
		p.left--
	}
	return p.end, p.left == 0
}

// jitter draws from [d, 2·d).
func jitter(d time.Duration) time.Duration { return d + rand.N(max(min(d, math.MaxInt64-d), 1)) }
