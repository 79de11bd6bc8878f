package handover

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"

	"example.com/service/locks"
)

// In this file all is well, or nothing is known.

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
