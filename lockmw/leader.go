package lockmw

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/retry"
)

// ErrResign ends Leader.Run: its function returns ErrResign, or an error that wraps it. The
// leader goes, and this process campaigns no more. Run returns the function's error.
var ErrResign = errors.New("lockmw: leadership was resigned")

// longestCampaignPause is how long a Leader that has failed again and again waits at most, before
// jitter, until it campaigns again.
const longestCampaignPause = 5 * time.Second

// A Leader elects one process of many: of all Leaders of one key and namespace, at most one
// leads at a time, while Redis keeps its word. Locker.Leader makes it. Its methods are safe for
// concurrent use.
type Leader struct {
	locker  *Locker
	key     string
	policy  Policy
	running atomic.Bool
	lease   atomic.Pointer[Lease] // the last one under which Run's function ran
}

// Leader returns a Leader for the lock of p.Prefix+key. It sends nothing to Redis. If a leader
// crashes, another one follows when p.TTL is over, so choose p.TTL by that: 5 s is a good value.
// p.RetryInterval is the first pause before a new campaign.
//
// Leader panics if key or p is invalid, or if p has a field that an election cannot have. Wait
// is one, and Retries other than Forever, because Run campaigns for as long as its context
// lives. FailOpen, Permits, Mode Shared, Shadow and Reentrant are others, because there would be
// several leaders.
func (l *Locker) Leader(key string, p Policy) *Leader {
	if err := errors.Join(validateKey(key), l.Validate(p), electable(p)); err != nil {
		panic("lockmw: Leader: " + err.Error())
	}
	p = p.withDefaults()
	p.Retries, p.AsyncRelease = Forever, false // Run ends when the lock is given back
	return &Leader{locker: l, key: key, policy: p}
}

// electable returns an error if a policy cannot elect one leader.
func electable(p Policy) error {
	for _, field := range []struct {
		name string
		set  bool
		why  string
	}{
		{"Wait", p.Wait != 0, "an election goes on for as long as the context of Run lives"},
		{"Retries", p.Retries != 0 && p.Retries != Forever, "an election goes on for as long as the context of Run lives"},
		{"FailOpen", p.FailOpen, "there would be several leaders while Redis cannot be reached"},
		{"Permits", p.Permits != 0, "there would be several leaders"},
		{"Mode", p.Mode != Exclusive, "there would be several leaders"},
		{"Shadow", p.Shadow, "every process would lead"},
		{"Reentrant", p.Reentrant, "several would lead in a context that holds the lock"},
	} {
		if field.set {
			return badPolicy(field.name, "%s", field.why)
		}
	}
	return nil
}

// Run campaigns until this process leads. While it leads, Run runs fn under the lease of the
// lock. fn gets the lease's context, which ends before another process can lead, and must return
// soon after that. FromContext finds the lease. Its Fence grows from leader to leader, except on
// a quorum.
//
// Run ends
//
//   - when fn returns nil, while it still leads, with nil;
//   - when fn returns an error that Is ErrResign, with that error;
//   - when ctx ends, with fn's error, or if fn does not run, with ctx's cause;
//   - when the Locker is closed, with an error that Is ErrClosed;
//   - when ctx holds the lock already, with an error that Is ErrReentrant.
//
// Before Run ends, it gives the lock back. In all other cases Run pauses and campaigns again:
// when leadership was lost or MaxHold has passed, whatever else fn returned; when the lock
// cannot be asked for; and when fn returned another error, which is logged. While terms are
// short, the pause grows from RetryInterval to 5 s; up to as much again is added at random. A
// panic of fn ends leadership and goes on. A Leader runs once at a time: a call of Run while
// another one is under way returns an error.
func (e *Leader) Run(ctx context.Context, fn func(ctx context.Context) error) error {
	if !e.running.CompareAndSwap(false, true) {
		return fmt.Errorf("lockmw: leader %q: Run is under way already", e.policy.Prefix+e.key)
	}
	defer e.running.Store(false)
	pause := e.policy.RetryInterval
	for {
		began := time.Now()
		ended, err := e.term(ctx, fn)
		if ended {
			return err
		}
		if time.Since(began) > e.policy.TTL {
			pause = e.policy.RetryInterval
		}
		if err := e.rest(ctx, retry.Jitter(pause)); err != nil {
			return err
		}
		pause = min(2*pause, max(longestCampaignPause, e.policy.RetryInterval))
	}
}

// term campaigns once, and leads once. ended says that Run ends with err.
func (e *Leader) term(ctx context.Context, fn func(ctx context.Context) error) (ended bool, err error) {
	p := e.policy
	e.locker.adjust(&p, forLeader) // which is never off
	lease, err := e.locker.acquireAs(ctx, e.key, p, false)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	default:
		return errors.Is(err, ErrClosed) || errors.Is(err, ErrReentrant), err
	}
	var own error // fn's
	_, err = runUnder(ctx, lease, func(ctx context.Context) (struct{}, error) {
		e.lease.Store(lease)
		own = fn(ctx)
		return struct{}{}, own
	})
	cause := context.Cause(lease.Context())
	switch {
	case errors.Is(err, ErrResign), ctx.Err() != nil:
		return true, err
	case errors.Is(cause, ErrLost), errors.Is(cause, ErrMaxHold), errors.Is(err, ErrLost) && !errors.Is(own, ErrLost): // which was logged
		return false, nil
	case err != nil:
		e.locker.log.Warn("lockmw: a leader's work has failed; it campaigns again", "name", e.policy.Name, "key", lease.Key(), "error", err)
		return false, nil
	}
	return true, nil
}

// rest waits for d. It returns an error if Run ends meanwhile.
func (e *Leader) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-e.locker.closing:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// IsLeader reports whether this process leads now: Run's function runs, and its lock is held for
// some 50 ms more at least. It asks the machine's clocks and not Redis. It is false before
// another process can lead.
func (e *Leader) IsLeader() bool {
	lease := e.lease.Load()
	return lease != nil && lease.Valid()
}
