package lockmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// How the calls of Do of one Locker that ask for the same come together. They are a flight: one of them leads, which takes the lock and runs the function,
// or finds the answer of another process; the others wait for what comes of that. Where it gets no answer that is for them, or has left, the next one leads, in
// the order in which they came. Each call is carried out by the goroutine of its caller.

// A flightName is what the calls of a flight have in common.
type flightName struct{ key, fingerprint string }

// A flight is the calls of a Locker that wait for one answer. The mutex of the key's ledger guards it.
type flight struct {
	calls  []*call                 // in the order in which they came, the one that leads first
	leads  *call                   // the one that leads, or is about to; it may have left while its function runs
	cancel context.CancelCauseFunc // ends the context of the function; nil: it does not run
	lease  *Lease                  // under which the function runs
}

// A call is one call of Do. It belongs to the goroutine of that call.
type call struct {
	locker    *Locker
	ctx       context.Context
	key       string // without the policy's prefix
	how       Flight
	came      time.Time
	of        flightName
	flight    *flight
	remarks   remarks      // what was said of its work, see unknown.go
	unencoded bool         // the codec has refused the answer
	lands     chan landing // what comes of the flight for the call; has room for one

	// Of work that is noted as begun, see unknown.go.
	begun int64           // when that was, by the clock of Redis, in µs
	why   string          // why nobody knows whether it was done, if nobody does
	left  *UncertainError // of work whose intent has stayed
}

// A landing is what comes of a flight for one of its calls: an answer, the error of one that is not for it, or that it leads from now on.
type landing struct {
	leads bool
	data  string
	err   error
}

func newCall(ctx context.Context, l *Locker, key string, f Flight) *call {
	ttl := f.Policy.withDefaults().TTL
	l.adjust(&f.Policy, forDo) // which is never off
	if raised := f.Policy.withDefaults().TTL - ttl; raised > 0 {
		f.UncertainFor = f.uncertainFor() + raised // the intent is to outlast the lock of a process that has died by as long as the program says
	}
	return &call{
		locker: l, ctx: ctx, key: key, how: f, came: time.Now(),
		of: flightName{f.Policy.Prefix + key, f.fingerprint()}, lands: make(chan landing, 1),
	}
}

// name is the name of the lock.
func (c *call) name() string { return c.of.key }

// claim returns a claim that began with the call.
func (c *call) claim() claim {
	asks := c.locker.newClaim(c.ctx, c.key, c.how.Policy, c.came, nil)
	asks.recall = c.of.fingerprint
	return asks
}

// do is Do: fn returns the bytes of its answer. own says that fn has run for this call, and otherwise data has the answer.
func (c *call) do(fn func(context.Context) ([]byte, error)) (own bool, data string, err error) {
	asks := c.claim()
	if _, err := asks.check(); err != nil {
		return false, "", asks.refused(err)
	}
	leads, err := c.join()
	if err != nil {
		return false, "", asks.refused(err)
	}
	landed := landing{leads: leads}
	if !leads {
		if landed, err = c.wait(); err != nil {
			return false, "", c.refused(err)
		}
	}
	if landed.leads {
		own, data, err = c.lead(fn)
	} else {
		data, err = landed.data, landed.err
	}
	switch {
	case own:
	case err == nil:
		asks.note(asks.event(EventAnswered))
		asks.tell(nil)
	case !errors.As(err, new(*AcquireError)): // there is an answer, and not for this call
		err = asks.refused(err)
	}
	return own, data, err
}

// join adds the call to its flight, and reports whether it leads. A call that may not wait for others leads one of its own. Those who
// do not lead count as waiters, until wait returns. The error is ErrClosed or ErrQueueFull.
func (c *call) join() (leads bool, err error) {
	if !c.how.Policy.waits() {
		c.flight = &flight{calls: []*call{c}, leads: c}
		return true, nil
	}
	led := c.locker.lockLedger(c.of.key)
	defer led.mu.Unlock()
	if led.ended {
		return false, ErrClosed
	}
	c.flight = led.flights[c.of]
	if c.flight != nil {
		if !c.locker.waiters.Follow(c.of.key, c.waitsAs(), len(c.flight.calls)) {
			return false, ErrQueueFull
		}
	} else {
		if led.flights == nil {
			led.flights = make(map[flightName]*flight)
		}
		c.flight = &flight{leads: c}
		led.flights[c.of] = c.flight
	}
	c.flight.calls = append(c.flight.calls, c)
	return c.flight.leads == c, nil
}

// waitsAs is the name under which the call counts as a waiter.
func (c *call) waitsAs() string { return c.how.Policy.withDefaults().Name }

// wait waits for what comes of the flight, for as long as the policy says.
func (c *call) wait() (landing, error) {
	defer c.locker.waiters.Unfollow(c.of.key, c.waitsAs())
	var over <-chan time.Time
	if limit, bounded := c.patience(); bounded {
		timer := time.NewTimer(time.Until(c.came.Add(limit)))
		defer timer.Stop()
		over = timer.C
	}
	returned := false
	defer func() {
		if !returned && !c.leave() && (<-c.lands).leads { // the caller's context has panicked
			c.land(nil, landing{})
		}
	}()
	landed, err := c.awaitLanding(over)
	returned = true
	if err == nil {
		return landed, nil
	}
	if c.leave() {
		return landing{}, err
	}
	if landed = <-c.lands; landed.leads { // just now
		c.land(nil, landing{})
		return landing{}, err
	}
	return landed, nil
}

// awaitLanding waits for what comes of the flight, until the call's context ends or over.
func (c *call) awaitLanding(over <-chan time.Time) (landing, error) {
	select {
	case landed := <-c.lands:
		return landed, nil
	case <-c.ctx.Done():
		asks := c.claim()
		return landing{}, asks.gaveUp()
	case <-over:
		return landing{}, errUsedUp
	}
}

// depart has calls that come from now on begin a flight of their own: the answer is there, and they come after it.
func (c *call) depart() {
	led := c.locker.lockLedger(c.of.key)
	defer led.mu.Unlock()
	if led.flights[c.of] == c.flight {
		delete(led.flights, c.of)
	}
}

// patience is for how long the policy lets a call wait.
func (c *call) patience() (limit time.Duration, bounded bool) {
	p := c.how.Policy.withDefaults()
	limit, bounded = p.Wait, p.Wait > 0
	if p.Retries > 0 && p.Retries <= int(time.Hour/p.RetryInterval) { // more than that bounds nothing
		if most := time.Duration(p.Retries) * p.RetryInterval; !bounded || most < limit {
			limit, bounded = most, true
		}
	}
	return limit, bounded
}

// refused is the refusal of a call that has waited for others of its process.
func (c *call) refused(err error) error {
	asks := c.claim()
	asks.queuedAt = c.came
	led := c.locker.lockLedger(c.of.key)
	lease := c.flight.lease
	led.mu.Unlock()
	if lease != nil {
		asks.seen = sightingOf(lease)
	} else { // the call that leads waits for the lock itself, as for work with another fingerprint
		asks.seen = sightingIn(c.locker.waiters.Seen(c.of.key))
	}
	return asks.refused(err)
}

// leave takes the call out of its flight, unless it has landed, or is the one that leads and has not begun yet. The
// function's context ends when the last one leaves.
func (c *call) leave() (left bool) {
	led := c.locker.lockLedger(c.of.key)
	defer led.mu.Unlock()
	f := c.flight
	i := slices.Index(f.calls, c)
	if i < 0 || f.leads == c && f.cancel == nil {
		return false
	}
	f.calls = slices.Delete(f.calls, i, i+1)
	if len(f.calls) == 0 && f.cancel != nil {
		cause := context.Cause(c.ctx)
		if cause == nil { // it has waited for as long as it could, and the others had left before
			cause = errUnwanted
		}
		f.cancel(cause)
	}
	return true
}

// errUnwanted is why the context of a function ends whose answer nobody waits for.
var errUnwanted = errors.New("lockmw: nobody waits for the answer any more")

// land ends the lead of the call. Those of its flight whom answers admits get what has landed, and the first of the others leads.
func (c *call) land(answers func(*call) bool, what landing) {
	led := c.locker.lockLedger(c.of.key)
	defer led.mu.Unlock()
	f := c.flight
	var others []*call
	for _, other := range f.calls {
		switch {
		case other == c:
		case answers != nil && answers(other):
			other.lands <- what
		default:
			others = append(others, other)
		}
	}
	f.calls, f.cancel, f.lease, f.leads = others, nil, nil, nil
	switch now := led.flights[c.of]; {
	case len(others) == 0 && now == f:
		delete(led.flights, c.of)
	case len(others) > 0 && now == nil: // the flight had departed, and its answer was lost
		led.flights[c.of] = f
	}
	if len(others) > 0 {
		f.leads = others[0]
		f.leads.lands <- landing{leads: true}
	}
}

// lead takes the lock, unless it finds an answer, and runs fn.
func (c *call) lead(fn func(context.Context) ([]byte, error)) (own bool, data string, err error) {
	var answers func(*call) bool
	var what landing
	defer func() { c.land(answers, what) }() // also if fn panics
	work, cancel := context.WithCancelCause(context.WithoutCancel(c.ctx))
	defer cancel(nil)
	asks := c.claim()
	asks.work = context.WithValue(work, callKey{}, c)
	var lease *Lease
	begins := false
	defer func() {
		if lease != nil && !begins { // also if the caller's context panics
			c.giveBack(lease)
		}
	}()
	lease, err = asks.acquire()
	asks.tell(lease)
	found, sent := asks.recalled, asks.recalledSent
	if lease != nil && (!asks.looked || c.how.Crash == Uncertain) {
		found, sent, err = c.look(lease)
	}
	switch {
	case err != nil:
		return false, "", err
	case found != nil:
		what = c.landingOf(found)
		answers = func(other *call) bool { return answersCall(found, sent, other) }
		return false, what.data, what.err
	}
	begins = true
	answer, err := c.run(lease, cancel, fn)
	if answer != nil {
		what, answers = landing{data: answer.Data}, func(*call) bool { return true }
	}
	return true, "", err
}

// giveBack releases a lease under which no work has begun. The call does not wait for long (but for a renewal that is in flight): it has an answer, or
// its time is over.
func (c *call) giveBack(lease *Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), leastTimeout)
	defer cancel()
	_ = lease.releaseWithin(ctx)
	lease.tellReleased()
}

// look looks for an answer for a call that has the lock: one that was handed the lock by others, who may have left one. With Uncertain, if
// there is none, it notes that the call's work begins; if that is in doubt, the lease gives the intent back with the lock.
func (c *call) look(lease *Lease) (found *store.Recalled, sent time.Time, err error) {
	recall := &store.Recall{Fingerprint: c.of.fingerprint}
	if c.how.Crash == Uncertain {
		recall.Intent = c.how.intent(lease.fence)
		undoes := toKeep{answer: &store.Record{Work: lease.fence, Undone: true}, unbegun: true}
		lease.keepWith(undoes)
		err = errLostBefore // until more is known, and where the caller's context panics
		defer func() {
			switch {
			case err != nil:
			case found != nil: // no work begins
				lease.keepWith(toKeep{})
			case !lease.Valid() || !lease.keepWith(toKeep{}): // the lock was lost, or Close has taken it with the intent
				lease.keepWith(undoes)
				err = c.refused(errLostBefore)
			}
		}()
	}
	end := time.Now().Add(opTimeout)
	if limit, bounded := c.patience(); bounded { // its caller waits no longer, but for one command
		if over, least := c.came.Add(limit), time.Now().Add(leastTimeout); over.After(least) {
			end = earlier(end, over)
		} else {
			end = least
		}
	}
	for ; ; sleep(c.ctx, releasePause) {
		sent = time.Now()
		recall.Waited = sent.Sub(c.came)
		a, err := c.locker.store.Recall(lease.ctx, store.Request{Ref: lease.ref, Until: end, Recall: recall})
		switch fault := store.AsError(err); {
		case err == nil && recall.Intent != nil && a.Recalled == nil && !a.Granted:
			return nil, sent, c.refused(errLostBefore)
		case err == nil:
			c.begun = a.Clock
			return a.Recalled, sent, nil
		case fault.Permanent || c.ctx.Err() != nil || !lease.Valid() || time.Until(end) < releasePause+leastTimeout:
			return nil, sent, c.refused(fmt.Errorf("%w: %w", ErrUnavailable, fault.Err))
		}
	}
}

// errLostBefore: the lock went, as Close or a loss has it, before the work was noted as begun.
var errLostBefore = fmt.Errorf("%w: the lock was lost before the work began", ErrUnavailable)

// landingOf is what a record that was found says to the calls of the flight.
func (c *call) landingOf(found *store.Recalled) landing {
	switch {
	case found.Fingerprint != c.of.fingerprint:
		return landing{err: ErrOtherRequest}
	case found.Begun():
		return landing{err: &UncertainError{Key: c.of.key, ID: strconv.FormatInt(found.Work, 10), Since: time.UnixMicro(found.Made)}}
	case found.Data == notKept:
		return landing{err: ErrAnswerNotKept}
	}
	return landing{data: found.Data}
}

// answersCall reports whether what was found is for another call of the flight. It was found by a command that was sent then, when the
// server's clock showed found.Clock at most. So it showed came at most when the call came.
func answersCall(found *store.Recalled, sent time.Time, c *call) bool {
	came := found.Clock - sent.Sub(c.came).Microseconds()
	return found.Begun() || came < found.Until || found.Fingerprint == c.of.fingerprint && came < found.Made
}

// run runs fn under the lease, and gives it back, with fn's answer if there is one that may be kept. answer is what others of the flight may
// have; the error is that of Do.
func (c *call) run(lease *Lease, cancel context.CancelCauseFunc, fn func(context.Context) ([]byte, error)) (answer *store.Record, err error) {
	led := c.locker.lockLedger(c.of.key)
	c.flight.cancel, c.flight.lease = cancel, lease
	led.mu.Unlock()
	c.why = whyPanicked
	defer c.findUnknown(lease) // also if fn panics
	answer, err = runUnder(c.ctx, lease, func(ctx context.Context) (*store.Record, error) {
		stop := context.AfterFunc(c.ctx, func() { c.leave() })
		defer stop()
		data, err := fn(ctx)
		said := c.remarks.all() // once: what is told to others and what is kept are to agree
		answer, lasts, err := c.answerOf(said, data, err)
		if answer != nil {
			c.depart() // before the answer can be kept
		}
		if !lasts {
			lease.reportAnswer(err)
		}
		keep, why := c.kept(lease, said, answer, lasts, err)
		c.why = cmp.Or(why, whyGivenBack) // then nothing of it is kept
		lease.keepWith(toKeep{answer: keep})
		return answer, err
	})
	if errors.Is(err, ErrLost) {
		answer = nil
	}
	return answer, err
}

// answerOf makes a record of what fn has returned, or nil of what is no answer. lasts is false for what was done, and cannot be kept.
func (c *call) answerOf(said remark, data []byte, err error) (answer *store.Record, lasts bool, _ error) {
	switch {
	case err != nil || said&noneForOthers != 0:
		return nil, !c.unencoded, err
	case len(data) > c.how.maxAnswer():
		err = fmt.Errorf("%w: %d bytes are more than %d", ErrAnswerTooLarge, len(data), c.how.maxAnswer())
		return c.how.record(c.of.fingerprint, data), false, err
	}
	return c.how.record(c.of.fingerprint, data), true, nil
}
