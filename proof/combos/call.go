package combos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// call is one call of Acquire, or of Resume, and what became of its lease. Times are from the
// beginning of the round.
type call struct {
	id       int
	by       string // ours or the witness
	keys     []string
	holds    bool // it keeps the lock over the faults
	shared   bool
	handed   time.Duration // when it was handed the lock on whose ticket it goes on; 0: it has none
	handing  time.Duration // how long the release took that did so
	wait     time.Duration
	asked    time.Duration
	returned time.Duration
	ctxEnded time.Duration // when its context ended, if Acquire had not returned; else 0
	deadline bool          // the context that ended had a deadline
	outcome  string
	open     []string
	err      string
	ended    time.Duration // when the hold ended
	released time.Duration // when Release returned
	lost     bool
	release  string // Release's error
	panicked string
	blocked  bool // an observer blocked while it was told about this call
	inside   bool // it blocked inside Acquire, when the call had the lock already
}

func (k call) String() string {
	return fmt.Sprintf("call %d of %s for %q (%v to %v, wait %v, hold %v): %s %s", k.id, k.by, k.keys[0],
		k.asked.Round(time.Millisecond), k.returned.Round(time.Millisecond), k.wait, k.holds, k.outcome, k.err)
}

const (
	byOurs    = "ours"
	byWitness = "the witness"
)

// call is one call of Acquire; it holds what it got for a while.
func (r *round) call(ctx context.Context, locks Locker, k call, p lockmw.Policy, hold time.Duration) {
	held := r.acquire(ctx, &k, func(ctx context.Context) (Lease, []string, error) { return locks.Acquire(ctx, k.keys, p) })
	if held == nil {
		r.note(k)
		return
	}
	ticket := ""
	if r.c.HandsOn && k.outcome == granted && k.id%2 == 0 {
		ticket = held.Ticket(ticketLasts)
	}
	r.hold(held, &k, hold)
	r.note(k)
	if ticket != "" && k.release == "" && k.panicked == "" {
		r.goOn(k, ticket, hold)
	}
}

// hold keeps a lock for so long, or until it is lost, and gives it back.
func (r *round) hold(lease Lease, k *call, lasts time.Duration) {
	timer := time.NewTimer(lasts)
	select {
	case <-timer.C:
	case <-lease.Context().Done():
	}
	timer.Stop()
	r.release(lease, k)
}

// ticketLasts is how long a ticket has its lock: shorter than what judgeKeys waits for.
const ticketLasts = time.Second

// goOn goes on by the ticket of a call, in the same process or in the other one.
func (r *round) goOn(issuer call, ticket string, hold time.Duration) {
	k := call{by: byWitness, keys: issuer.keys, wait: time.Second, handed: issuer.ended, handing: issuer.released - issuer.ended}
	locks := r.witness
	if issuer.id%4 == 0 {
		k.by, locks = byOurs, r.ours
	}
	lease := r.acquire(r.whole, &k, func(ctx context.Context) (Lease, []string, error) {
		lease, err := locks.Resume(ctx, ticket, lockmw.Policy{TTL: r.c.TTL, Wait: k.wait})
		return lease, nil, err
	})
	if lease != nil {
		r.hold(lease, &k, hold)
	}
	r.note(k)
}

// began returns since when the call, or the ticket with which it came, had the lock.
func (k call) began() time.Duration {
	if k.handed > 0 {
		return k.handed
	}
	return k.returned
}

func (r *round) note(k call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, k)
}

// acquire asks for a lock and notes what came of it.
func (r *round) acquire(ctx context.Context, k *call, asks func(ctx context.Context) (Lease, []string, error)) (lease Lease) {
	k.id = int(r.ids.Add(1))
	var mark atomic.Int32
	var endedAt atomic.Int64
	stop := context.AfterFunc(ctx, func() { endedAt.Store(int64(r.now())) })
	defer func() {
		stop()
		if err := recover(); err != nil {
			k.panicked, k.outcome = fmt.Sprint(err), other
			k.returned = r.now()
			lease = nil
		}
		at := lockmw.EventKind(mark.Load())
		k.blocked, k.inside = at != 0, at == lockmw.EventAcquired || at == lockmw.EventHandedOver
	}()
	k.asked = r.now()
	lease, open, err := asks(context.WithValue(ctx, markOf{}, &mark))
	k.returned = r.now()
	if at := time.Duration(endedAt.Load()); at > 0 && at < k.returned {
		k.ctxEnded = at
	} else if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		k.ctxEnded = k.returned // it was told sooner than this
	}
	if k.ctxEnded > 0 {
		_, k.deadline = ctx.Deadline()
	}
	switch {
	case err != nil:
		k.outcome, k.err = outcomeOf(err), err.Error()
		return nil
	case len(open) > 0:
		k.outcome, k.open = ranOpen, open
	default:
		k.outcome = granted
	}
	return lease
}

// release ends a hold and gives the lease back.
func (r *round) release(lease Lease, k *call) {
	k.ended = r.now()
	if until := lease.ValidUntil(); !until.IsZero() { // on a busy machine this comes later than the end
		k.ended = min(k.ended, until.Sub(r.began))
	}
	k.lost = k.lost || !lease.Valid()
	defer func() {
		if err := recover(); err != nil {
			k.panicked = fmt.Sprint(err)
		}
		k.released = r.now()
	}()
	if err := lease.Release(context.Background()); err != nil {
		k.release = outcomeOf(err)
		if k.release == other {
			k.release = err.Error()
		}
	}
}

// holder takes a lock that is kept until drop.
func (r *round) holder(locks Locker, by string, keys []string, p lockmw.Policy) (drop func()) {
	k := call{by: by, keys: keys, holds: true, wait: 5 * time.Second}
	p.Wait, p.Retries, p.FailOpen, p.MinHold = 5*time.Second, 0, false, 0
	ctx, cancel := context.WithCancel(context.Background()) // of the lease too
	hangs := time.AfterFunc(20*time.Second, cancel)
	lease := r.acquire(ctx, &k, func(ctx context.Context) (Lease, []string, error) { return locks.Acquire(ctx, keys, p) })
	hangs.Stop()
	if lease == nil {
		cancel()
		r.note(k)
		return func() {}
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-lease.Context().Done():
			k.lost = true
		case <-stop:
		}
		r.release(lease, &k)
		cancel()
		r.note(k)
	}()
	return func() { close(stop); <-done }
}
