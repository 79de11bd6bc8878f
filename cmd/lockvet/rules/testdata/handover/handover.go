package handover

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"example.com/service/locks"
)

var (
	all   *locks.Locks
	store locks.Store
	sync  *redsync.Redsync
	bad   = errors.New("bad")
)

func work(context.Context) error { return nil }

func save(*locks.State, *redislock.Lock) {}

func change(context.Context, *redislock.Lock) error { return nil }

func early(ctx context.Context) error {
	lock, err := all.Order(ctx, "42") // want `line 33 is reached without lock.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func orNil(ctx context.Context) error {
	lock := all.OrderOrNil(ctx, "42") // want `line 44 is reached without lock.Release`
	if lock == nil {
		return bad
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return lock.Release(ctx)
}

func untilItIsThere(ctx context.Context) bool {
	lock, state := all.OrderAndState(ctx, "42") // want `line 56 is reached without lock.Release`
	for lock == nil {
		lock, state = all.OrderAndState(ctx, "42")
	}
	open := state.Open
	if !open {
		return false
	}
	save(state, lock)
	return true
}

func sometimes(ctx context.Context, id string) error {
	state := all.State(id)
	var lock *redislock.Lock
	if state.Open {
		lock = all.OrderOrNil(ctx, id) // want `line 72 is reached without lock.Release`
		if lock == nil {
			return bad
		}
	}
	if err := work(ctx); err != nil {
		return err
	}
	return change(ctx, lock)
}

func onSomeWays(ctx context.Context, id string, running bool, parts []string) {
	lock := all.OrderOrNil(ctx, id) // want `line 91 is reached without lock.Release`
	if running && len(parts) > 0 {
		if len(parts) > 1 {
			_ = change(ctx, nil)
			if len(parts) > 2 {
				_ = change(ctx, lock)
			} else if lock != nil {
				_ = lock.Release(ctx)
			}
		} else {
			_ = change(ctx, lock)
		}
	}
}

func tried(ctx context.Context) error {
	lock, ok := all.TryOrder(ctx, "42") // want `line 99 is reached without lock.Release`
	if !ok {
		return bad
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func again(ctx context.Context) error {
	lock, err := all.OrderAgain(ctx, "42") // want `line 110 is reached without lock.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func ofMutex(ctx context.Context) error {
	mutex, err := all.Mutex("42") // want `line 121 is reached without mutex.Unlock`
	if err != nil {
		return err
	}
	if !mutex.Until().After(time.Now()) {
		return bad
	}
	_, err = mutex.UnlockContext(ctx)
	return err
}

func inTime(ctx context.Context) error {
	mutex, err := all.MutexInTime(ctx, "42") // want `line 133 is reached without mutex.Unlock`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	_, err = mutex.Unlock()
	return err
}

func ofLease(ctx context.Context) error {
	ctx, lease, err := all.Lease(ctx, "42") // want `line 142 is reached without lease.Release`
	if err != nil || !lease.Valid() {
		return err
	}
	return work(ctx)
}

func droppedLease(ctx context.Context) error {
	ctx, _, err := all.Lease(ctx, "42") // want `the lease is dropped`
	if err != nil {
		return err
	}
	return work(ctx)
}

func guarded(ctx context.Context) error {
	guard, err := all.Guard(ctx, "42") // want `line 161 is reached without guard.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return guard.Release(ctx)
}

func guardedBy(ctx context.Context) error {
	guard, err := all.GuardOf(ctx, "42") // want `line 172 is reached without guard.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return guard.Release(ctx)
}

func throughInterface(ctx context.Context) error {
	lock := store.Releaser(ctx, "42") // want `line 183 is reached without lock.Release`
	if lock == nil {
		return bad
	}
	if !store.State("42").Open {
		return nil
	}
	return lock.Release(ctx)
}

func byFunction(ctx context.Context) error {
	unlock, err := all.Unlocker(ctx, "42") // want `line 194 is reached without unlock\(\)`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	unlock()
	return nil
}

func byMethod(ctx context.Context) error {
	unlock, err := all.MutexUnlocker("42") // want `line 206 is reached without unlock\(\)`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	_, err = unlock()
	return err
}

func withinStruct(ctx context.Context) error {
	order, err := all.Locked(ctx, "42") // want `line 218 is reached without order.Lock.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return order.Lock.Release(ctx)
}

// An obtainer is redislock's client, or one for tests.
type obtainer interface {
	Obtain(ctx context.Context, key string, ttl time.Duration, opt *redislock.Options) (*redislock.Lock, error)
}

func inPlaceOfClient(ctx context.Context, o obtainer) error {
	lock, err := o.Obtain(ctx, "42", time.Second, nil) // want `line 234 is reached without lock.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func errorThrownAway(ctx context.Context) error {
	mutex := sync.NewMutex("42")
	mutex.Lock() // want `line 243 is reached without mutex.Unlock`
	if err := work(ctx); err != nil {
		return err
	}
	_, err := mutex.Unlock()
	return err
}

func errorsThrownAway(ctx context.Context) error {
	lock, _ := all.Order(ctx, "42") // want `line 255 is reached without lock.Release`
	if lock == nil {
		return bad
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func oneOfTheFailures(ctx context.Context) error {
	lock, err := all.Order(ctx, "42") // want `line 266 is reached without lock.Release`
	if err != nil {
		return err
	}
	if err := change(ctx, nil); err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		_ = lock.Release(ctx)
		return err
	}
	return nil
}
