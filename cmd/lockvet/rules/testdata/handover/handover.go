package handover

import (
	"context"
	"errors"
	"fmt"
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
	lock, err := all.Order(ctx, "42") // want `line 34 is reached without lock.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func orNil(ctx context.Context) error {
	lock := all.OrderOrNil(ctx, "42") // want `line 45 is reached without lock.Release`
	if lock == nil {
		return bad
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return lock.Release(ctx)
}

func untilItIsThere(ctx context.Context) bool {
	lock, state := all.OrderAndState(ctx, "42") // want `line 57 is reached without lock.Release`
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
		lock = all.OrderOrNil(ctx, id) // want `line 73 is reached without lock.Release`
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
	lock := all.OrderOrNil(ctx, id) // want `line 92 is reached without lock.Release`
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
	lock, ok := all.TryOrder(ctx, "42") // want `line 100 is reached without lock.Release`
	if !ok {
		return bad
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func again(ctx context.Context) error {
	lock, err := all.OrderAgain(ctx, "42") // want `line 111 is reached without lock.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func ofMutex(ctx context.Context) error {
	mutex, err := all.Mutex("42") // want `line 122 is reached without mutex.Unlock`
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
	mutex, err := all.MutexInTime(ctx, "42") // want `line 134 is reached without mutex.Unlock`
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
	ctx, lease, err := all.Lease(ctx, "42") // want `line 143 is reached without lease.Release`
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
	guard, err := all.Guard(ctx, "42") // want `line 162 is reached without guard.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return guard.Release(ctx)
}

func guardedBy(ctx context.Context) error {
	guard, err := all.GuardOf(ctx, "42") // want `line 173 is reached without guard.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return guard.Release(ctx)
}

func throughInterface(ctx context.Context) error {
	lock := store.Releaser(ctx, "42") // want `line 184 is reached without lock.Release`
	if lock == nil {
		return bad
	}
	if !store.State("42").Open {
		return nil
	}
	return lock.Release(ctx)
}

func byFunction(ctx context.Context) error {
	unlock, err := all.Unlocker(ctx, "42") // want `line 195 is reached without unlock\(\)`
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
	unlock, err := all.MutexUnlocker("42") // want `line 207 is reached without unlock\(\)`
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
	order, err := all.Locked(ctx, "42") // want `line 219 is reached without order.Lock.Release`
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
	lock, err := o.Obtain(ctx, "42", time.Second, nil) // want `line 235 is reached without lock.Release`
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
	mutex.Lock() // want `line 244 is reached without mutex.Unlock`
	if err := work(ctx); err != nil {
		return err
	}
	_, err := mutex.Unlock()
	return err
}

func errorsThrownAway(ctx context.Context) error {
	lock, _ := all.Order(ctx, "42") // want `line 256 is reached without lock.Release`
	if lock == nil {
		return bad
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func oneOfTheFailures(ctx context.Context) error {
	lock, err := all.Order(ctx, "42") // want `line 267 is reached without lock.Release`
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

// From here on all is well, or nothing is known.

func deferred(ctx context.Context) error {
	lock, err := all.Order(ctx, "42")
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func untilItIsThereRight(ctx context.Context) bool {
	lock, state := all.OrderAndState(ctx, "42")
	for lock == nil {
		lock, state = all.OrderAndState(ctx, "42")
	}
	defer lock.Release(ctx)
	return state.Open
}

func toldByState(ctx context.Context) error {
	lock, state := all.OrderAndState(ctx, "42")
	if state == nil { // there is no lock then
		return bad
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func toldByValue(ctx context.Context) *locks.State {
	state, lock := all.OrderUnlessKnown(ctx, "42")
	if state != nil { // there is no lock then
		return state
	}
	defer lock.Release(ctx)
	return nil
}

func toldByValueOfIt(ctx context.Context) error {
	state, lock := all.OrderUnlessKnown(ctx, "42")
	known := state != nil
	if known {
		return nil
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func toldByThree(ctx context.Context) error {
	lock, open, err := all.OrderIfOpen(ctx, "42")
	if err != nil {
		return err
	}
	if !open { // there is no lock then
		return nil
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func triedRight(ctx context.Context) error {
	if lock, ok := all.TryOrder(ctx, "42"); ok {
		defer lock.Release(ctx)
		return work(ctx)
	}
	return nil
}

func functionRight(ctx context.Context) error {
	unlock, err := all.Unlocker(ctx, "42")
	if err != nil {
		return err
	}
	defer unlock()
	return work(ctx)
}

func interfaceRight(ctx context.Context) error {
	lock := store.Releaser(ctx, "42")
	if lock == nil {
		return bad
	}
	defer func() { _ = lock.Release(ctx) }()
	return work(ctx)
}

func wrappedError(ctx context.Context) error {
	lock, err := all.Order(ctx, "42")
	err = wrap(err)
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock: %w", err)
}

func handled(ctx context.Context) {
	lock, err := all.Order(ctx, "42")
	if answered(err) {
		return
	}
	defer lock.Release(ctx)
}

func answered(err error) bool { return err != nil }

func withoutCheck(ctx context.Context) error {
	mutex, _ := all.Mutex("42")
	if !mutex.Until().After(time.Now()) { // it was not locked
		return bad
	}
	defer mutex.Unlock()
	return work(ctx)
}

// It runs once in a second: nobody else runs it until the TTL is over.
func oncePerTTL(ctx context.Context) error {
	if _, err := all.Order(ctx, "once"); err != nil {
		return nil
	}
	return work(ctx)
}

func oncePerExpiry(ctx context.Context) error {
	mutex := sync.NewMutex("once", redsync.WithExpiry(time.Minute))
	if err := mutex.Lock(); err != nil {
		return nil
	}
	return work(ctx)
}

// What is done is not done again until the TTL is over, and what has failed is tried again at once.
func oncePerTTLUnlessItFails(ctx context.Context) error {
	lock, err := all.Order(ctx, "once")
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		_ = lock.Release(ctx)
		return err
	}
	return nil
}

func oncePerTTLUnlessItFailsToo(ctx context.Context) {
	lock, ok := all.TryOrder(ctx, "once")
	if !ok {
		return
	}
	if err := work(ctx); err != nil {
		_ = lock.Release(ctx)
	}
}

func sharedMutex(ctx context.Context, of func(id string) *redsync.Mutex) error {
	mutex := of("42")
	if err := mutex.Lock(); err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err // another one who asks for the mutex unlocks it
	}
	_, err := mutex.Unlock()
	return err
}

func keptByOthers(ctx context.Context) error {
	lock, err := all.Kept(ctx, "42")
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func readOrLocked(ctx context.Context, cache locks.Cache) error {
	lock := cache.Entry(ctx, "42")
	if lock == nil {
		return bad
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}
