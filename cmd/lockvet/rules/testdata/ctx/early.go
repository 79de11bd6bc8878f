package ctx

import (
	"context"
	"errors"
)

func early(ctx context.Context, notify func(context.Context, error) error) error {
	lockCtx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	if err := save(lockCtx, "a"); err != nil {
		_ = save(ctx, "b") // want `ctx does not end when the lock is lost: use lockCtx`
		lease.Release(ctx)
		return notify(ctx, err) // the lock is free
	}
	_ = save(ctx, "c") // want `ctx does not end when the lock is lost: use lockCtx`
	return lease.Release(ctx)
}

func earlyInLoop(ctx context.Context, parts []string) error {
	lockCtx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	for _, part := range parts {
		switch {
		case part == "":
			lease.Release(ctx)
			return save(ctx, "nothing")
		default:
			_ = save(ctx, part) // want `ctx does not end when the lock is lost: use lockCtx`
		}
	}
	if err := save(lockCtx, "b"); err != nil {
		_ = lease.Release(ctx)
		panic(err)
	}
	_ = save(ctx, "c") // want `ctx does not end when the lock is lost: use lockCtx`
	return lease.Release(ctx)
}

func maybe(ctx context.Context, done bool) error {
	_, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	if done {
		_ = lease.Release(ctx)
	} else {
		defer lease.Release(ctx)
	}
	return save(ctx, "a") // nobody knows whether there is still a lock
}

func maybeSince(ctx context.Context, changes <-chan string) error {
	lockCtx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
loop:
	for {
		select {
		case change := <-changes:
			_ = save(ctx, change) // want `ctx does not end when the lock is lost: use lockCtx`
		case <-lockCtx.Done():
			_ = lease.Release(ctx)
			break loop
		}
	}
	return save(ctx, "it is over")
}

func checked(ctx context.Context) error {
	lockCtx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	if err = save(ctx, "a"); err != nil { // want `ctx does not end when the lock is lost: use lockCtx`
		return errors.Join(err, save(ctx, "b")) // want `ctx does not end when the lock is lost: use lockCtx`
	}
	return save(lockCtx, "c")
}

func whereTaken(ctx context.Context) error {
	_, lease, err := locks.Acquire(ctx, "42", policy)
	if err == nil {
		_ = lease.Release(ctx)
	}
	return save(ctx, "a")
}
