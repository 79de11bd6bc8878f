package combos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// call is one call of Acquire and what became of its lease. Times are from the
// beginning of the round.
type call struct {
	id       int
	by       string // ours or the witness
	keys     []string
	holds    bool // it keeps the lock over the faults
	shared   bool
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
	held := r.acquire(ctx, locks, &k, p)
	if held != nil {
		timer := time.NewTimer(hold)
		select {
		case <-timer.C:
		case <-held.Context().Done():
		}
		timer.Stop()
		r.release(held, &k)
	}
	r.note(k)
}

func (r *round) note(k call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, k)
}

// acquire calls Acquire and notes what came of it.
func (r *round) acquire(ctx context.Context, locks Locker, k *call, p lockmw.Policy) (lease Lease) {
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
	lease, open, err := locks.Acquire(context.WithValue(ctx, markOf{}, &mark), k.keys, p)
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
	lease := r.acquire(ctx, locks, &k, p)
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
