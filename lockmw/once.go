package lockmw

import (
	"context"
	"slices"
	"time"

	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
)

// Once runs fn under the lock of p.Prefix+key, unless others hold the lock or the key cools
// down. In these two cases ran is false and err is nil: somebody does the work, or has just done
// it. So if many processes come with the same job at the same time, one of them runs it.
//
// Give p a MinHold that is longer than the clocks of the processes differ. Otherwise a process
// that comes late finds the job done and the lock free, and runs the job again. Set
// MinHoldOnError, too, if the next process shall not try a failed job, either.
//
// Once fn has run, err is what Locker.WithLock returns. If fn did not run for another reason
// than these two, ran is false and err is Acquire's. After ErrUnavailable nobody can know
// whether the job runs elsewhere.
//
// A policy with Wait or Retries is refused with ErrInvalidPolicy: whoever waited would run the
// job after the others. So is a policy with Permits, Shadow or Mode Shared: all who come would
// run the job. With FailOpen every process runs the job while Redis is away. Within work that has failed open, Once takes
// the lock, and does not join that work's lease. On a quorum, each
// of those who ask at the same time may get some votes, and none a majority. Then Once asks
// again after each RetryInterval, eight times in all at most. Where others hold the job's lock,
// or the key cools down, observers are told EventSkipped and not EventRefused, and nothing is
// logged.
func (l *Locker) Once(ctx context.Context, key string, p Policy, fn func(ctx context.Context) error) (ran bool, err error) {
	switch {
	case p.Shadow:
		return false, l.Refuse(ctx, p, badPolicy("Shadow", "Once in shadow: every process would run the job; leave out Shadow"))
	case p.waits():
		return false, l.Refuse(ctx, p, badPolicy("Wait", "Once does not wait: the job would run after the one that holds the lock; leave out Wait and Retries"))
	case p.Mode == Shared:
		return false, l.Refuse(ctx, p, badPolicy("Mode", "Once with Shared: all who come share the lock, and each would run the job; leave out Mode"))
	case p.Permits != 0:
		return false, l.Refuse(ctx, p, badPolicy("Permits", "Once with Permits: as many as there are permits would run the job; leave out Permits"))
	}
	c, lease, err := l.attempt(ctx, key, p)
	for tries := 1; tries < ballots && c.votesAreSplit(); tries++ {
		sleep(ctx, retry.Jitter(c.policy.RetryInterval)) // if ctx ends, the next attempt says so
		c, lease, err = l.attempt(ctx, key, p)
	}
	if skipped := err != nil && c.heldByOthers(); skipped {
		c.skip()
		err = nil
	}
	c.tell(lease)
	if lease == nil {
		return false, err
	}
	_, err = runUnder(ctx, lease, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return true, err
}

// ballots is how often Once asks a quorum at most.
const ballots = 8

// attempt is acquire, for a job.
func (l *Locker) attempt(ctx context.Context, key string, p Policy) (c *claim, lease *Lease, err error) {
	off := l.adjust(&p, forOnce)
	job := l.newClaim(ctx, key, p, time.Now(), nil)
	job.once, job.off = true, off
	lease, err = job.acquire()
	return &job, lease, err
}

// votesAreSplit reports whether the claim may have had the vote of some of a quorum's nodes, while
// others had those of the rest: then perhaps nobody has the lock.
func (c *claim) votesAreSplit() bool {
	return c.ballot != nil && c.heldByOthers() && slices.ContainsFunc(c.ballot.Votes, func(v store.Vote) bool {
		return !v.Refused && v.Err == nil
	})
}

// skip has observers be told that the work of a refused claim is not needed.
func (c *claim) skip() {
	for i := range c.events {
		if c.events[i].Kind == EventRefused {
			c.events[i].Kind, c.events[i].Reason, c.events[i].Err = EventSkipped, "", nil
		}
	}
	c.refusal = nil
}
