package lockmw

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/report"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// What fence, lockadmin, locktest, lockctl and the doors may do with a Locker and users may not: package internal/seam has the functions as variables,
// so that this package exports none of them.

func init() { //nolint:gochecknoinits // lockmw imports seam, so it cannot be called from there
	seam.NewLocker = func(s store.Store, opts ...any) any {
		of := make([]Option, len(opts))
		for i, opt := range opts {
			of[i] = opt.(Option)
		}
		o, err := gather(of)
		if err != nil {
			panic(err) // the options are those of tests
		}
		return newLocker(s, o)
	}
	seam.LookInto = func(namespace string) any { return lookInto(namespace) }
	seam.RenewNow = func(locker any, key string) { locker.(*Locker).renewNow(key) }
	seam.Warn = func(locker any, ctx context.Context, p any, text string) {
		locker.(*Locker).warn(ctx, p.(Policy), text)
	}
	seam.Crash = func(locker any, forget func(key string)) bool { return locker.(*Locker).crash(forget) }
	seam.Waiting = func(locker any, key string) int { return locker.(*Locker).waiting(key) }
	seam.Recent = func(locker any) *recent.Log { return &locker.(*Locker).recent }
	seam.Settings = func(locker any) any { return locker.(*Locker).settings.list() }
	seam.ReadSettings = func(ctx context.Context, locker any) (map[string]string, int64, error) {
		ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
		defer cancel()
		return locker.(*Locker).store.Settings(ctx)
	}
	seam.Set = func(ctx context.Context, locker any, pattern string, was *string, text string) (string, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
		defer cancel()
		return locker.(*Locker).store.Set(ctx, pattern, was, text)
	}
	seam.Fences = func(lease any) []seam.Fence { return lease.(*Lease).fences() }
	seam.Outer = func(lease any) any {
		if outer := lease.(*Lease).outer; outer != nil {
			return outer
		}
		return nil
	}
	seam.TakenByDoor = func(lease any) { lease.(*Lease).ofDoor = true }
	seam.DoorInFront = doorInFront
	seam.Guarded = func(lease any, key string, stale error) { lease.(*Lease).guarded(key, stale) }
	seam.CallOf = func(ctx context.Context) seam.Call {
		if c, ok := ctx.Value(callKey{}).(*call); ok {
			return c
		}
		return nil
	}
	seam.Reaches = func(locker any) bool { return locker.(*Locker).outage.Reaches() }
}

// doorInFront is seam.DoorInFront.
func doorInFront(ctx context.Context) bool {
	for lease, _ := FromContext(ctx); lease != nil && !lease.forAnswer; lease = lease.outer {
		if lease.ofDoor && lease.policy.Mode == Exclusive && lease.policy.Permits <= 1 {
			return true
		}
	}
	return false
}

// warn logs what is wrong with the program, by a line for each text, also where nobody has given a logger.
func (l *Locker) warn(ctx context.Context, p Policy, text string) {
	if l.log.Handler() == slog.DiscardHandler {
		return
	}
	if _, ok := l.refusals.Admits(report.Kind{Name: p.Name, Mistake: text}, time.Now()); ok {
		l.reports.Shouting().WarnContext(context.WithoutCancel(ctx), "lockmw: "+text, "name", p.Name)
	}
}

// waiting returns how many calls wait for key: in the queue, behind others of
// this Locker, for the answer of another call of Do, or for Redis to be back.
func (l *Locker) waiting(key string) (n int) {
	away := l.outage.Prospect(key).Reach != outage.Reachable
	for _, state := range l.waiters.States(key) {
		if away || state != waitqueue.Asking {
			n++
		}
	}
	led := l.lockLedger(key)
	defer led.mu.Unlock()
	for of, f := range led.flights {
		for _, c := range f.calls {
			if of.key == key && c != f.leads { // that one is at work, or in the queue
				n++
			}
		}
	}
	return n
}

// fences is seam.Fences.
func (l *Lease) fences() (all []seam.Fence) {
	owners := []*Lease{l.owner()}
	if several, ok := l.has.(*bundle); ok {
		owners = several.owners()
	}
	for _, owner := range owners {
		all = append(all, seam.Fence{
			Key: owner.ref.Key, RedisKey: redisstore.LockKey(l.locker.namespace, owner.ref.Key),
			Fence: owner.fence, Shared: owner.ref.Kind != store.Kind{},
		})
	}
	return all
}

// guarded is seam.Guarded.
func (l *Lease) guarded(key string, stale error) {
	kind := EventUnfenced
	if stale != nil {
		kind = EventStale
	}
	e := l.event(kind, stale)
	e.Key = key
	l.locker.tellLater(l.ctx, e)
	if stale != nil {
		l.locker.logSeldom(slog.LevelWarn, "stale", e.Name, "lockmw: a write was refused, because a later holder of the lock has written",
			slog.String("key", key), slog.Any("error", stale))
	}
}

// crash is seam.Crash.
func (l *Locker) crash(forget func(key string)) bool {
	var died []*tenure
	keys := make(map[string]bool)
	for _, lease := range l.allLeases() {
		t := lease.tenure()
		if t == nil { // it runs without its lock
			continue
		}
		lease.releaseOnce.Do(func() { // it is never released, so nothing is kept of its work
			lease.releaseErr = ErrLost
			died, keys[t.ref.Key] = append(died, t), true
		})
	}
	for key := range keys {
		forget(key)
	}
	for _, t := range died { // behind that, since calls that rest behind a tenure of this Locker ask Redis then
		t.lostInStore(errNotHeld)
		t.expire() // one that was over its MaxHold
	}
	return len(died) > 0
}
