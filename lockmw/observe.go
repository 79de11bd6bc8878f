package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/store"
)

// event describes what happens to the claim.
func (c *claim) event(kind EventKind) Event {
	e := c.policy.event(kind, c.ref.Key)
	e.Queued, e.Waited, e.Attempts, e.Part = !c.queuedAt.IsZero(), c.waited(), c.sent, c.part
	e.Ticket = c.ticket != nil
	return e
}

const (
	// reportPatience is how long a call waits at most until observers have been told of its
	// EventContended, of which they are told in the background.
	reportPatience = 20 * time.Millisecond

	// lastReports is how long Close waits at most until all is told.
	lastReports = 500 * time.Millisecond
)

// tell tells the observers of e, in the calling goroutine.
func (l *Locker) tell(ctx context.Context, e Event) {
	for _, observer := range l.observers {
		l.reports.Call(func() { observer(ctx, e) })
	}
}

// tellLater has the observers told of e in the background.
func (l *Locker) tellLater(ctx context.Context, e Event) {
	if len(l.observers) > 0 {
		l.reports.Later(func() { l.tell(ctx, e) })
	}
}

// note keeps e until tell is called.
func (c *claim) note(e Event) {
	if len(c.locker.observers) == 0 {
		return
	}
	if c.events == nil {
		c.events = make([]Event, 0, 2) // most have one or two
	}
	c.events = append(c.events, e)
}

// contends tells the observers that the claim waits. It does not wait for them:
// others of its key may wait behind it.
func (c *claim) contends() {
	c.contended = true
	if len(c.locker.observers) > 0 {
		e := c.event(EventContended)
		e.Left, e.Holder = c.holderLeft, c.met
		c.locker.tellLater(c.ctx, e)
	}
}

// tell tells the observers the events that were noted. lease is what came of the
// claim, or nil. An observer may block, so this comes last: neither Close nor other waiters
// wait for the claim any more, though they may wait for its lease.
func (c *claim) tell(lease *Lease) {
	if c.refusal != nil && lease == nil {
		c.locker.logRefusal(c.ctx, c.refusal)
	}
	if len(c.events) == 0 {
		return
	}
	ctx, told := c.ctx, false
	if lease != nil {
		ctx = lease.ctx
		defer func() {
			if !told { // an observer has ended the goroutine, so nobody gets the lease
				_ = lease.Release(ctx)
			}
		}()
	}
	if c.contended {
		c.locker.reports.Flush(reportPatience)
	}
	for _, e := range c.events {
		c.locker.tell(ctx, e)
	}
	c.events, told = nil, true
}

// tellLater has the observers told about the lease in the background. They get its context, with its values
// and its end.
func (l *Lease) tellLater(kind EventKind, err error) {
	if len(l.locker.observers) > 0 {
		l.locker.tellLater(l.ctx, l.event(kind, err))
	}
}

// event describes what happened to the lease.
func (l *Lease) event(kind EventKind, err error) Event {
	l.mu.Lock()
	var left time.Duration
	if l.state == held && l.tenure() != nil {
		left = l.promised().left(now())
	}
	l.mu.Unlock()
	e := l.policy.event(kind, l.ref.Key)
	e.Held, e.Left, e.Err, e.Part = time.Since(l.start), max(left, 0), err, l.part
	return e
}

// reportLost logs that the lease was lost, and tells the observers.
func (l *Lease) reportLost(reason error) { l.reportLostAfter(time.Since(l.start), reason) }

// reportLostAfter is reportLost of a lease that was held for so long; 0: the observers have been told of its release.
func (l *Lease) reportLostAfter(held time.Duration, reason error) {
	attrs := []any{"name", l.policy.Name, "key", l.ref.Key, "held", time.Since(l.start)}
	revoked, byForce := errors.AsType[*RevokedError](reason)
	if byForce {
		attrs = append(append(attrs, "reason", "released by force"), revoked.attrs()...)
	} else {
		attrs = append(attrs, "reason", reason)
	}
	l.locker.log.Warn("lockmw: lock was lost while it was held; its context has ended, and another may have the lock", attrs...)
	l.happened(EventLost, reason)
	if len(l.locker.observers) > 0 {
		e := l.event(EventLost, reason)
		if e.Held = held; byForce {
			e.Intervention = revoked.Intervention
		} else {
			e.Err = fmt.Errorf("%w: %w", ErrLost, reason)
		}
		l.locker.tellLater(l.ctx, e)
	}
}

// reportKept tells what has become of a record with an answer, if it is one: nil is that Redis has it.
func (l *Lease) reportKept(r *store.Record, err error) {
	if r != nil && !r.Undone && r.Data != notKept {
		l.reportAnswer(err)
	}
}

// reportAnswer tells whether the answer of the lease's work is kept, and otherwise why not.
func (l *Lease) reportAnswer(err error) {
	if err == nil {
		l.tellLater(EventAnswerKept, nil)
		return
	}
	l.happened(EventAnswerNotKept, err)
	l.tellLater(EventAnswerNotKept, err)
}

// tellReleased tells the observers of the lease's release, unless they were told.
// It is called after the release, so that nobody who waits for the lock or for the
// release waits for an observer.
func (l *Lease) tellReleased() {
	if l.unreported.CompareAndSwap(true, false) {
		if len(l.locker.observers) > 0 {
			e := l.event(EventReleased, l.eventErr)
			e.Ticket = l.handing().done
			l.locker.tell(l.ctx, e)
		}
	}
	if b, ok := l.has.(*bundle); ok {
		b.tellReleased()
	}
}

// incident is what is kept for operators of a claim that ends without its lock, as e says.
func (c *claim) incident(e Event) recent.Incident {
	i := recent.Incident{At: time.Now(), Kind: e.Kind.String(), Name: e.Name, Key: e.Key, Reason: e.Reason, Waited: e.Waited}
	if c.refusal != nil && c.refusal.Holder != nil {
		i.Holder = c.refusal.Holder.Instance
	}
	if e.Kind == EventFailedOpen {
		i.Reason = CodeBackendUnavailable
	}
	return i
}

// whyNotKept says without the texts of others why an answer is not kept.
func whyNotKept(err error) string {
	switch {
	case errors.Is(err, ErrAnswerTooLarge):
		return "larger than MaxAnswer"
	case errors.Is(err, ErrLost):
		return "the lock was lost"
	case errors.Is(err, ErrUnavailable):
		return "Redis has not taken it"
	}
	return "it cannot be encoded"
}

// happened keeps for operators what happened to the lease.
func (l *Lease) happened(kind EventKind, reason error) {
	i := recent.Incident{At: time.Now(), Kind: kind.String(), Name: l.policy.Name, Key: l.ref.Key, Held: time.Since(l.start)}
	var revoked *RevokedError
	switch {
	case errors.Is(reason, ErrMaxHold):
		i.Reason = "longer than MaxHold"
	case kind == EventStuck:
		i.Reason = "for many TTLs"
	case kind == EventAnswerNotKept:
		i.Reason = whyNotKept(reason)
	case kind == EventLost && errors.As(reason, &revoked):
		i.Reason = revoked.brief()
	case reason != nil: // one of the fixed texts with which a tenure ends
		i.Reason = reason.Error()
	}
	l.locker.recent.Happened(i)
}
