package lockmw

import (
	"context"
	"time"
)

// Once runs fn under the lock of p.Prefix+key, unless others hold it: then ran is false
// and err nil, because somebody does the work, or has just done it. So of all processes
// that come with the same job at the same time one runs it. Give p a MinHold that is
// longer than their clocks differ, or one that comes late finds the job done and the lock
// free, and runs it again; and a MinHoldOnError if a failed job shall not be tried by the
// next one, either.
//
// Once fn has run, err is what Locker.WithLock returns. Otherwise ran is false, and err is
// Acquire's, but for a lock that others hold: with ErrUnavailable nobody can know whether
// the job runs elsewhere. A policy with Wait or Retries is refused with ErrInvalidPolicy: whoever waited would
// run the job after the others. Observers are told EventSkipped, not EventRefused, of a
// job that others hold, and nothing is logged.
func (l *Locker) Once(ctx context.Context, key string, p Policy, fn func(ctx context.Context) error) (ran bool, err error) {
	if p.waits() {
		return false, l.Refuse(ctx, p, badPolicy("Wait", "Once does not wait: the job would run after the one that holds the lock; leave out Wait and Retries"))
	}
	c := l.newClaim(ctx, key, p, time.Now(), nil)
	c.once = true
	lease, err := c.acquire()
	if skipped := err != nil && c.heldElsewhere(); skipped {
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

// heldElsewhere reports whether the claim was refused because others hold the lock.
func (c *claim) heldElsewhere() bool {
	told, _ := RefusalOf(c.refusal)
	return told.Code == CodeBusy
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
