package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// What must not be of a ticket, by docs/tickets.md: that it gives the lock more than once, or when it should not, that somebody has the lock beside it, and
// that a call is told of it what is not so.

// issued notes a ticket, and judges whether it is one.
func (j *judge) issued(b *job, lease *lockmw.Lease) {
	r := b.from
	err := lockmw.CheckTicket(b.ticket)
	b.none = err != nil
	spent := errors.Is(err, lockmw.ErrTicketSpent)
	switch {
	case err != nil && !errors.Is(err, lockmw.ErrInvalidTicket):
		j.sayf(r, "a ticket is none, and not said to be invalid: %v", err)
	case r.wish.Policy.AsyncRelease:
		if err == nil {
			j.sayf(r, "it does not await its release, and has a ticket")
		}
	case r.free || lease.FenceOf(b.key) == 0:
		if !spent {
			j.sayf(r, "it has no lock, and its ticket is not said to be spent: %v", err)
		}
	case err != nil && (lease.Context().Err() == nil || !spent):
		j.sayf(r, "it has the lock, and no ticket: %v", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, other := range j.jobs[b.key] {
		if other.from != r {
			continue
		}
		if other.ticket == b.ticket {
			other.lasts = b.lasts // which counts from now on
			return
		}
		if !other.none && !b.none && other.gone.IsZero() && other.asking == 0 {
			j.addLockedf("process %d, %s: a second ticket is another one", r.process, b.key)
		}
	}
	j.jobs[b.key] = append(j.jobs[b.key], b)
}

// releases notes that a call's release is about to begin, and released that it has returned, for what it has issued.
func (j *judge) releases(r *record, failed bool) {
	j.ofJobs(r, func(b *job) { b.void, b.began = failed, time.Now() })
}

// hasReleased notes that a call's release has returned. The lock's value outlasts the fence by a second where that is ahead of the server's clock, as
// within a process that passes the lock on.
func (j *judge) hasReleased(r *record, err error) {
	if r.wish.Lasts == 0 {
		return
	}
	sure := err == nil && !j.excused(r, r.asked, FaultKind.refuses) && !j.tooFar(r)
	j.ofJobs(r, func(b *job) {
		b.ended, b.err, b.sure, b.longer = time.Now(), err, sure, b.lasts+time.Millisecond // Redis counts whole ones
		if early := time.UnixMicro(b.fence).Sub(b.began.Add(j.skew)); early > -time.Microsecond {
			b.longer = max(b.lasts, early+time.Second)
		}
	})
}

func (j *judge) ofJobs(r *record, do func(*job)) {
	if r.wish.Lasts == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range j.jobs[r.wish.Keys[0]] {
		if b.from == r {
			do(b)
		}
	}
}

// asksBy notes that a call by a job's ticket begins.
func (j *judge) asksBy(b *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b.asking++
}

// mayHave is until when a job's ticket may have the lock; a zero time: it never has it, or does not any more.
func (b *job) mayHave() time.Time {
	switch {
	case b.none, b.void, b.began.IsZero(), b.got != nil, !b.gone.IsZero(), errors.Is(b.err, lockmw.ErrLost):
		return time.Time{}
	case b.ended.IsZero():
		return time.Now().Add(b.lasts + ahead + time.Second)
	case b.err != nil: // it is taken back, or ends
		return b.ended.Add(b.longer + onItsWay)
	}
	return b.ended.Add(b.longer)
}

// handedOn is until when tickets may have a key; it may be over. The caller holds mu.
func (j *judge) handedOn(key string) (until time.Time) {
	for _, b := range j.jobs[key] {
		until = later(until, b.mayHave())
	}
	return until
}

// has reports whether a job's ticket has the lock for sure. The caller of the judge's methods holds mu.
func (b *job) has(j *judge) bool {
	sure := !b.none && !b.void && b.sure && b.got == nil && b.gone.IsZero() && b.asking == 0 && !b.doubt
	return sure && time.Since(b.began) < b.lasts-50*time.Millisecond && j.kept(b.from, b.key)
}

// besideTickets judges that a key is granted to a call while a ticket has it. The caller holds mu.
func (j *judge) besideTickets(r *record, key string) {
	for _, b := range j.jobs[key] {
		if b.has(j) {
			j.addLockedf("%s was handed on to a ticket of process %d at %v, for %v, and process %d (%s) has it", key, b.from.process,
				b.ended.Sub(j.world.began), b.lasts, r.process, r.wish.Kind)
		}
	}
}

// resumed judges that a call has the lock by a ticket.
func (j *judge) resumed(r *record, b *job, lease *lockmw.Lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b.asking--
	why := ""
	switch {
	case b.none:
		why = "there was none"
	case b.got != nil:
		why = fmt.Sprintf("process %d had it before", b.got.process)
	case b.void:
		why = "the work of its issuer has failed"
	case b.began.IsZero():
		why = "its issuer has not released it"
	case !b.gone.IsZero() && b.gone.Before(r.asked):
		why = "it was discarded"
	case errors.Is(b.err, lockmw.ErrLost):
		why = "its issuer had lost it"
	case !b.ended.IsZero() && b.err == nil && r.asked.After(b.ended.Add(b.longer+2*time.Millisecond)): // it is told in whole ones, and rounded up
		why = fmt.Sprintf("it was handed on at %v for %v, and asked for at %v", b.ended.Sub(j.world.began), b.longer, r.asked.Sub(j.world.began))
	case lease.Fence() <= b.fence:
		why = fmt.Sprintf("its fence is %d, and that of its issuer was %d", lease.Fence(), b.fence)
	}
	if why != "" {
		j.addLockedf("process %d has %s by a ticket, and %s", r.process, b.key, why)
	}
	b.got = r
}

// isOver reports whether something may be why a ticket is spent that is not its issuer's release. The call r is told so.
func (j *judge) isOver(r *record, b *job) bool {
	ended := b.from.lease.Context().Err()
	lost := ended != nil && errors.Is(context.Cause(b.from.lease.Context()), lockmw.ErrLost)
	return lost || j.excused(b.from, b.from.asked, FaultKind.refuses) || j.tooFar(b.from) || j.excused(r, r.asked, FaultKind.refuses) || j.tooFar(r)
}

// notResumed judges a call that did not go on by its ticket.
func (j *judge) notResumed(r *record, b *job, err error, took time.Duration) {
	defer j.leaves(r)
	j.bound(r, "Resume", took, j.longest(r))
	over, ill := j.isOver(r, b), j.excused(r, r.asked, FaultKind.refuses) || j.farAway(r)
	prompt := j.atOnce(r) + 200*time.Millisecond + 10*j.world.parts[r.process].Away
	j.mu.Lock()
	defer j.mu.Unlock()
	b.asking--
	wrong := ""
	switch {
	case errors.Is(err, lockmw.ErrInvalidTicket):
		if !b.none {
			wrong = "it was one"
		}
	case b.none:
		wrong = "there was no ticket"
	case errors.Is(err, lockmw.ErrTicketSpent):
		if !over && !b.maySpent() {
			wrong = "nothing has spent it"
		}
	case errors.Is(err, context.DeadlineExceeded):
		b.doubt = true
		if r.wish.GiveUp == 0 || took < r.wish.GiveUp {
			wrong = "its deadline was not over"
		}
	case errors.Is(err, lockmw.ErrUnavailable):
		b.doubt = true
		if !ill {
			wrong = "nothing was wrong with Redis"
		}
	case errors.Is(err, lockmw.ErrNotAcquired):
		// otherwise the issuer's process may have the lock still, for its next caller
		wasHandedOn := b.sure && !b.void && (b.gone.IsZero() || b.gone.After(b.ended))
		if wasHandedOn && time.Since(b.ended) > prompt && !over {
			wrong = "its issuer has handed it on"
		}
		if least := j.leastPatience(r); took < least {
			wrong = fmt.Sprintf("all policies of that moment say at least %v", least)
		}
	default:
		wrong = "this is no answer"
	}
	if wrong != "" {
		j.addLockedf("process %d, a ticket for %s, after %v: %v; and %s", r.process, b.key, took, err, wrong)
	}
}

// maySpent reports whether a ticket may be spent by what was done with it, or its time. The judge's mutex is held.
func (b *job) maySpent() bool {
	return b.void || b.got != nil || !b.gone.IsZero() || b.asking > 0 || b.doubt || b.err != nil || !b.began.IsZero() && time.Since(b.began) >= b.lasts-20*time.Millisecond
}

// discarded judges a Discard.
func (j *judge) discarded(r *record, b *job, err error, took time.Duration) {
	defer j.leaves(r)
	j.bound(r, "Discard", took, r.wish.GiveUp+2*slack)
	over, ill := j.isOver(r, b), j.excused(r, r.asked, FaultKind.refuses) || j.farAway(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	b.asking--
	wrong := ""
	switch {
	case err == nil:
		if b.gone.IsZero() {
			b.gone = time.Now()
		}
		j.moves(r)
		return
	case errors.Is(err, lockmw.ErrInvalidTicket):
		if !b.none {
			wrong = "it was one"
		}
	case errors.Is(err, lockmw.ErrUnavailable):
		b.doubt = true
		if !ill {
			wrong = "nothing was wrong with Redis"
		}
	case errors.Is(err, lockmw.ErrNotAcquired) && errors.Is(err, context.DeadlineExceeded):
		b.doubt = true
		if b.sure && !b.void && b.ended.Before(r.asked) && took > time.Second && !over {
			wrong = "its issuer has handed it on"
		}
	default:
		wrong = "this is no answer"
	}
	if wrong != "" {
		j.addLockedf("process %d discards a ticket for %s, after %v: %v; and %s", r.process, b.key, took, err, wrong)
	}
}

// lastHandedOn is when the last ticket's time is over.
func (j *judge) lastHandedOn() (last time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key := range j.jobs {
		last = later(last, j.handedOn(key))
	}
	return last
}

// handsOnNow reports whether a plan's calls issue tickets.
func (p Plan) handsOnNow() bool {
	return slices.ContainsFunc(p.Processes, func(process Process) bool {
		return slices.ContainsFunc(process.Callers, func(c Caller) bool {
			return slices.ContainsFunc(c.Wishes, func(w Wish) bool { return w.Lasts > 0 })
		})
	})
}
