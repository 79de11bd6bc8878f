package lockmw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/report"
	"github.com/lockmw/kit/internal/store"
)

// The error of a call that got no lease (refuse), with what is known of who has the lock and when to ask again, and its line
// in the log.

// gaveUp is the error of a claim that its context ended. If Redis had been silent for a while at a deadline, or
// had refused to serve, that is what there is to say: nobody knows of a holder.
func (c *claim) gaveUp() error {
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
		if p := c.prospect(); p.Reach != outage.Reachable {
			return fmt.Errorf("%w: %w: %w", ErrUnavailable, p.Err(), context.DeadlineExceeded)
		} else if c.fault != nil && c.fault.Evidence == store.Answered {
			return fmt.Errorf("%w: %w: %w", ErrUnavailable, c.fault.Err, context.DeadlineExceeded)
		} else if c.fault != nil || p.Silence >= outage.SilentAfter {
			return fmt.Errorf("%w: no answer: %w", ErrUnavailable, context.DeadlineExceeded)
		}
	}
	err, cause := c.ctx.Err(), context.Cause(c.ctx)
	switch {
	case errors.Is(cause, err):
		return fmt.Errorf("%w: %w", ErrNotAcquired, cause)
	case errors.Is(cause, ErrReleased):
		if c.locker.isClosed() { // by which the lease was released, and not by its work
			return ErrClosed
		}
		return fmt.Errorf("%w: %w: %w: this is the context of work that is over; acquire with the one from outside the lock", ErrNotAcquired, err, cause)
	}
	return fmt.Errorf("%w: %w: %w", ErrNotAcquired, err, cause)
}

// refuse describes why there is no lease.
func (c *claim) refuse(err error) error {
	refusal := &AcquireError{
		Name: c.policy.Name, Key: c.ref.Key, Attempts: c.sent, Waited: c.waited(), Queued: !c.queuedAt.IsZero(),
		RetryAfter: c.retryAfter(err), Votes: c.votes(), Err: err, forAnswer: c.recall != "",
		Waiting: c.alsoWaiting,
	}
	if errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrQueueFull) || errors.Is(err, ErrReentrant) {
		var own *Lease
		if left := c.coolsDownFor(); left > 0 && errors.Is(err, ErrNotAcquired) {
			refusal.Err, refusal.CoolingDown, refusal.RetryAfter = coolingDown(err, left), left, 0
		} else if refusal.Holder, own = c.who(); own != nil && errors.Is(err, ErrNotAcquired) {
			age := time.Since(own.start)
			refusal.Err = heldHere(err, age, age >= refusal.Waited && own.mayWaitFor(c.ctx))
		}
		c.learn(false)
	}
	c.refusal = refusal
	e := c.event(EventRefused)
	e.Waited, e.Err, e.Holder, e.Waiting = refusal.Waited, refusal, refusal.Holder, refusal.Waiting
	if told, ok := RefusalOf(refusal); ok {
		e.Reason = told.Code
	}
	c.note(e)
	if !c.once || !c.heldByOthers() {
		c.locker.recent.Refused(c.incident(e))
	}
	return refusal
}

// heldHere is err of a claim for a lock that this Locker has itself, for age. Most often that is another request. But a call
// under the lock that hands on another context than the lease's waits for itself, and nobody else can tell. selfMade says that
// it looks like that: the claim has found one holder for all of its wait, and that may wait for it.
func heldHere(err error, age time.Duration, selfMade bool) error {
	held := fmt.Sprintf("held by another call of this process for %v", age.Round(time.Millisecond))
	hint := ""
	if selfMade {
		hint = ": if that call waits for this one, its context was not handed on"
	}
	switch {
	case errors.Is(err, errHeld):
		return fmt.Errorf("%w: %s%s", ErrNotAcquired, held, hint)
	case errors.Is(err, errUsedUp):
		return fmt.Errorf("%w: %s, and until the wait was over%s", ErrNotAcquired, held, hint)
	}
	return fmt.Errorf("%w; %s%s", err, held, hint)
}

// mayWaitFor reports whether the work under the lease may have handed ctx on, in the place of the lease's own context: one
// that ends with that which the lease was acquired with, as a request's that is used in a function under the lock, or one
// that never ends, as context.Background. Two requests, or two jobs, have an end of their own each.
func (l *Lease) mayWaitFor(ctx context.Context) bool {
	done := ctx.Done()
	return done == nil || done == l.callerDone
}

// coolingDown is err of a claim that found nobody at work, and a key that stays taken for left.
func coolingDown(err error, left time.Duration) error {
	cools := fmt.Sprintf("its work was done a moment ago, and it is cooling down for another %v", left.Round(time.Millisecond))
	if errors.Is(err, errHeld) || errors.Is(err, errUsedUp) {
		return fmt.Errorf("%w: %s", ErrNotAcquired, cools)
	}
	return fmt.Errorf("%w; %s", err, cools)
}

// Refuse returns the refusal of a call that could not even ask for its lock, because of err.
// For example, no key can be derived from a request, or a middleware is used wrongly. Refuse
// is for code that derives keys and takes locks for others, as the middlewares do. It sends
// nothing to Redis. Observers and the log are told, as they are of the refusals of Acquire.
//
// The error is an *AcquireError that wraps err, never nil. Have err wrap ErrInvalidKey if the
// caller sent a request without a usable key. An err that Is none of this package's errors is
// a mistake of the program, see RefusalOf. The log has one line for each such mistake, that
// is for each Name and text of err, as long as the program runs.
//
// Of p, the error has Name and Prefix, and the event has Mode and Permits as well. Nothing
// else of p counts, unless err Is ErrNotAcquired or ErrQueueFull: then RetryAfter is as p
// says.
func (l *Locker) Refuse(ctx context.Context, p Policy, err error) error {
	c := l.newClaim(ctx, "", p, time.Now(), nil)
	return c.refused(err)
}

// votes are those of the last command, if a quorum was asked.
func (a *attempts) votes() []Vote {
	if a.ballot == nil {
		return nil
	}
	votes := make([]Vote, len(a.ballot.Votes))
	for i, v := range a.ballot.Votes {
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
		switch {
		case c.policy.RetryAfter > 0:
			return c.policy.RetryAfter
		case c.policy.MinHold > 0 && !errors.Is(err, ErrQueueFull):
			return 0 // who came back when the work is done would find the key cooling down, or be so late that the work is done once more
		}
		return c.comesFree()
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
		return soonest
	}
	return 0
}

// logRefusal logs a refusal, unless one like it was logged a moment ago. Contention
// and a shut-down are what happens to every program, and are told as information. A mistake of
// the program is an error, and so is uncertain work: these alone are logged where nobody has given a logger.
func (l *Locker) logRefusal(ctx context.Context, refusal *AcquireError) {
	told, _ := RefusalOf(refusal)
	level := slog.LevelWarn
	switch told.Code {
	case CodeBusy, CodeWaitTimeout, CodeIdempotencyInProgress, CodeCooldown, CodeTicketSpent, CodeClosed, "":
		level = slog.LevelInfo
	case CodeMisuse, CodeIdempotencyUncertain: // somebody has to mend it, or to look
		level = slog.LevelError
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	kind := report.Kind{Name: refusal.Name, Reason: told.Code}
	if told.Code == CodeMisuse && !errors.Is(refusal, ErrInvalidPolicy) && !errors.Is(refusal, ErrReentrant) && !errors.Is(refusal, ErrNotAcquired) {
		kind.Mistake = refusal.Err.Error()
	}
	unknown, uncertain := errors.AsType[*UncertainError](refusal)
	if uncertain {
		kind.Mistake = unknown.mistake() // each is told, once: see logUncertain
	}
	quiet, ok := l.refusals.Admits(kind, time.Now())
	if !ok {
		return
	}
	reason := told.Code
	if reason == "" {
		reason = "the caller's context was cancelled" // a client has left, or a worker was told to stop
	}
	attrs := []slog.Attr{
		slog.String("name", refusal.Name), slog.String("key", refusal.Key),
		slog.String("reason", reason), slog.Any("error", refusal),
	}
	if uncertain {
		attrs = append(attrs, slog.String("work", unknown.ID))
	}
	if h := refusal.Holder; h != nil {
		attrs = append(attrs, slog.String("holder", h.Instance))
		if h.Note != "" {
			attrs = append(attrs, slog.String("holder_note", h.Note))
		}
		if h.Age > 0 {
			attrs = append(attrs, slog.Duration("held_for", h.Age.Round(time.Millisecond)))
		}
		if h.HandedOn {
			attrs = append(attrs, slog.Bool("handed_on", true))
		}
	}
	if refusal.Waiting > 0 {
		attrs = append(attrs, slog.Int("waiting", refusal.Waiting))
	}
	if quiet > 0 {
		attrs = append(attrs, slog.Int("not_logged", quiet))
	}
	l.log.LogAttrs(ctx, level, "lockmw: lock was refused", attrs...)
	if errors.Is(refusal, ErrUnavailable) {
		l.outage.Told(refusal.Key)
	}
}

// heldByOthers reports whether the claim was refused because others hold the lock, or have done the work a moment ago.
func (c *claim) heldByOthers() bool {
	told, _ := RefusalOf(c.refusal)
	return told.Code == CodeBusy || told.Code == CodeCooldown
}

// refused returns what refuse does, and tells the observers.
func (c *claim) refused(err error) error {
	err = c.refuse(err)
	c.tell(nil)
	return err
}

// logSeldom logs a line about a name, unless one of its kind was logged a moment ago.
func (l *Locker) logSeldom(level slog.Level, kind, name, text string, attrs ...slog.Attr) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	quiet, ok := l.refusals.Admits(report.Kind{Name: name, Reason: kind}, time.Now())
	if !ok {
		return
	}
	attrs = append([]slog.Attr{slog.String("name", name)}, attrs...)
	if quiet > 0 {
		attrs = append(attrs, slog.Int("not_logged", quiet))
	}
	l.log.LogAttrs(ctx, level, text, attrs...)
}
