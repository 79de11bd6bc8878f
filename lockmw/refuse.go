package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	minRetryAfter = time.Second
	maxRetryAfter = 30 * time.Second
)

// gaveUp is the error of a claim that its context ended. If Redis had been silent
// for a while at a deadline, that is what there is to say: nobody knows of a holder.
func (c *claim) gaveUp() error {
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
		if p := c.prospect(); p.reach != reachable {
			return fmt.Errorf("%w: %w: %w", ErrUnavailable, &awayError{p.since, p.age, p.cause}, context.DeadlineExceeded)
		} else if c.fault != nil || p.silence >= silentAfter {
			return fmt.Errorf("%w: no answer: %w", ErrUnavailable, context.DeadlineExceeded)
		}
	}
	err, cause := c.ctx.Err(), context.Cause(c.ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", ErrNotAcquired, cause)
	}
	return fmt.Errorf("%w: %w: %w", ErrNotAcquired, err, cause)
}

// refuse describes why there is no lease.
func (c *claim) refuse(err error) error {
	refusal := &AcquireError{
		Key: c.ref.Key, Attempts: c.attempts, Waited: c.waited(), Queued: c.stands,
		RetryAfter: c.retryAfter(err), Votes: c.votes(), Err: err,
	}
	c.note(Event{
		Kind: EventRefused, Prefix: c.policy.Prefix, Key: c.ref.Key,
		Waited: refusal.Waited, Attempts: c.attempts, Err: refusal,
	})
	return refusal
}

// votes are those of the last question, if a quorum was asked.
func (c *claim) votes() []Vote {
	if c.ballot == nil {
		return nil
	}
	votes := make([]Vote, len(c.ballot.Votes))
	for i, v := range c.ballot.Votes {
		votes[i] = Vote{Node: v.Node, Acquired: v.Granted, Err: v.Err}
		if !v.Granted && !v.Refused && v.Err == nil {
			votes[i].Err = errNotCast
		}
	}
	return votes
}

var errNotCast = errors.New("no answer was waited for: the outcome was certain, or the node silent before")

func (c *claim) retryAfter(err error) time.Duration {
	switch {
	case errors.Is(err, ErrNotAcquired), errors.Is(err, ErrQueueFull):
		return min(max(c.left, minRetryAfter), maxRetryAfter)
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
		return minRetryAfter
	}
	return 0
}

func (c *claim) waited() time.Duration { return time.Since(c.start) }
