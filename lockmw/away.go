package lockmw

import (
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/outage"
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
func (c *claim) outlook(p outage.Prospect) outlook {
	policy := c.policy
	switch {
	case p.Reach == outage.Reachable:
		return asks
	case policy.FailOpen && (p.Reach == outage.Away || policy.waits() && p.Age >= policy.opensAfter()):
		return opens
	case p.Reach == outage.Suspected && !policy.waits():
		return asks
	case p.Reach == outage.Away && (policy.Wait > 0 || policy.Retries < Forever):
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
func (c *claim) prospect() outage.Prospect { return c.locker.outage.Prospect(c.ref.Key) }

// glance is prospect, at no cost while all servers can be reached.
func (c *claim) glance() outage.Prospect { return c.locker.outage.Glance(c.ref.Key) }

// errNoAnswer is the error of a claim whose wait ended before Redis had answered,
// though Redis can be reached as far as is known.
func errNoAnswer(p outage.Prospect) error {
	if p.Silence >= outage.SilentAfter {
		return fmt.Errorf("%w: no answer for %v", ErrUnavailable, p.Silence.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: the wait was over before Redis had answered", ErrNotAcquired)
}
