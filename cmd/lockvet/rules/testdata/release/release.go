package release

import (
	"context"
	"database/sql"
	"errors"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/lockmw"
)

var (
	locks   *lockmw.Locker
	policy  lockmw.Policy
	bad     = errors.New("bad")
	client  *redislock.Client
	sync    *redsync.Redsync
	mutexes = map[string]*redsync.Mutex{}
)

func work(context.Context) error { return nil }

func never(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy) // want `not released on each way out of the function: line 29 is reached without lease.Release`
	if err != nil || !lease.Valid() {
		return err
	}
	return work(ctx)
}

func oneWay(ctx context.Context) error {
	ctx, lease, err := locks.AcquireAll(ctx, []string{"42"}, policy) // want `line 40 is reached without lease.Release`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lease.Release(ctx)
}

func sameError(ctx context.Context) error {
	ctx, lease, err := locks.Resume(ctx, "a ticket", policy) // want `line 52 is reached`
	if err != nil {
		return err
	}
	err = work(ctx)
	if err != nil {
		return err // of the work, and the lock is held
	}
	return lease.Release(ctx)
}

func looks(ctx context.Context, tx *sql.Tx) error {
	_, lease, err := locks.Acquire(ctx, "42", policy) // want `line 63 is reached without lease.Release`
	if err != nil {
		return err
	}
	if lease == nil || !lease.Valid() {
		return bad
	}
	return fence.Postgres.Guard(ctx, tx, lease)
}

func dropped(ctx context.Context) error {
	ctx, _, err := locks.Acquire(ctx, "42", policy) // want `the lease is dropped`
	if err != nil {
		return err
	}
	return work(ctx)
}

func switched(ctx context.Context) error {
	_, lease, err := locks.Acquire(ctx, "42", policy) // want `line 84 is reached without lease.Release`
	switch {
	case errors.Is(err, lockmw.ErrNotAcquired):
		return nil
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return lease.Release(ctx)
}

func inLiteral() func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, lease, err := locks.Acquire(ctx, "42", policy) // want `line 95 is reached without lease.Release`
		if err == nil {
			lease.MarkFailed()
		}
		return work(ctx)
	}
}

func obtained(ctx context.Context) error {
	lock, err := client.Obtain(ctx, "42", 0, nil) // want `line 107 is reached without lock.Release`
	if err == redislock.ErrNotObtained {
		return nil
	} else if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func locked(ctx context.Context) error {
	mutex := sync.NewMutex("42")
	if err := mutex.LockContext(ctx); err != nil { // want `line 118 is reached without mutex.Unlock`
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	_, err := mutex.UnlockContext(ctx)
	return err
}

// From here on all is well.

func deferred(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	defer lease.Release(ctx) // of no lease it does nothing
	if err != nil {
		return err
	}
	return work(ctx)
}

func inFunction(ctx context.Context) (err error) {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	defer func() {
		if released := lease.Release(ctx); released != nil {
			err = released
		}
	}()
	return work(ctx)
}

func spent(ctx context.Context) error {
	under, lease, err := locks.Resume(ctx, "a ticket", policy)
	if errors.Is(err, lockmw.ErrTicketSpent) {
		under, lease, err = locks.Acquire(ctx, "42", policy)
	}
	if err != nil {
		return err
	}
	defer lease.Release(under)
	return work(under)
}

func handedOver(ctx context.Context) (*lockmw.Lease, error) { // want handedOver:`hands over a lock: result 0, with .Release, if result 1 says so`
	_, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

type holder struct{ lease *lockmw.Lease }

func (h *holder) take(ctx context.Context) (err error) {
	_, h.lease, err = locks.Acquire(ctx, "42", policy)
	return err
}

func stored(ctx context.Context, h *holder) error {
	_, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	h.lease = lease
	return nil
}

func goesOn(ctx context.Context, done chan<- *lockmw.Lease) error {
	_, lease, err := locks.Acquire(ctx, "42", policy)
	if err == nil {
		done <- lease
	}
	return err
}

func panics(ctx context.Context) {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		panic(err)
	}
	for {
		if err := work(ctx); err != nil {
			break
		}
	}
	_ = lease.Release(ctx)
}

func obtainedRight(ctx context.Context) error {
	lock, err := redislock.Obtain(ctx, nil, "42", 0, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func lockedRight(ctx context.Context) error {
	mutex := sync.NewMutex("42")
	err := mutex.Lock()
	if err != nil {
		return err
	}
	defer mutex.Unlock()
	return work(ctx)
}

func lockedElsewhere(mutex *redsync.Mutex) error {
	return mutex.Lock() // the caller unlocks
}

func lockedForGood(name string) error {
	if err := mutexes[name].Lock(); err != nil {
		return err
	}
	return nil
}

func lockedInAnotherWay(ctx context.Context) error {
	mutex := sync.NewMutex("42")
	err := mutex.LockContext(ctx)
	if _, taken := errors.AsType[*redsync.ErrTaken](err); taken || errors.Is(err, redsync.ErrFailed) {
		return nil
	}
	if err != nil {
		return err
	}
	defer mutex.Unlock()
	return work(ctx)
}
