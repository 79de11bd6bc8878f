package lockmw

import (
	"fmt"
	"time"
)

// An outlook is what a claim does, by what is known of its server.
type outlook uint8

const (
	asks      outlook = iota // it may send a command
	holdsBack                // it waits for the server, and sends nothing
	opens                    // it runs without the lock
	refuses                  // it ends with ErrUnavailable
)

// outlook returns what the claim does. While the server is only suspected, a
// claim that has one attempt makes it, and one that waits holds back. Once the
// server is away nobody is kept waiting, except by a policy without any limit.
func (c *claim) outlook(p prospect) outlook {
	policy := c.policy
	switch {
	case p.reach == reachable:
		return asks
	case policy.FailOpen && (p.reach == away || policy.waits() && p.age >= policy.opensAfter()):
		return opens
	case p.reach == suspected && !policy.waits():
		return asks
	case p.reach == away && (policy.Wait > 0 || policy.Retries < Forever):
		return refuses
	}
	return holdsBack
}

// opensAfter is how long the server must have been out of reach before a claim
// that waits runs without the lock. It is promised to run within its Wait, or
// within a second where that is shorter, so this is a tenth less.
func (p Policy) opensAfter() time.Duration {
	promised := opTimeout
	if p.Wait > 0 {
		promised = min(promised, p.Wait)
	}
	return promised - promised/10
}

// prospect returns what is known of the claim's server.
func (c *claim) prospect() prospect {
	o := c.locker.outage
	if o == nil {
		return prospect{}
	}
	return o.of(c.ref.Key).prospect()
}

// glance is prospect, at no cost while all servers can be reached: then it says
// that alone, without silence and changed.
func (c *claim) glance() prospect {
	if o := c.locker.outage; o == nil || o.troubled.Load() == 0 {
		return prospect{}
	}
	return c.prospect()
}

// unanswered is the error of a claim whose wait ended before Redis had answered,
// though Redis can be reached as far as is known.
func (p prospect) unanswered() error {
	if p.silence >= silentAfter {
		return fmt.Errorf("%w: no answer for %v", ErrUnavailable, p.silence.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: the wait was over before Redis had answered", ErrNotAcquired)
}

// An awayError says since when a server is away, and wraps the cause.
type awayError struct {
	since time.Time
	age   time.Duration
	cause error
}

// Error says since when.
func (e *awayError) Error() string {
	return fmt.Sprintf("Redis cannot be reached since %s (for %v): %v",
		e.since.Format(time.RFC3339), e.age.Round(time.Millisecond), e.cause)
}

// Unwrap returns the cause.
func (e *awayError) Unwrap() error { return e.cause }
