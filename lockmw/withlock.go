package lockmw

import (
	"context"
	"errors"
	"fmt"
)

// WithLock runs fn under the lock of p.Prefix+key, see Acquire for how it is taken. fn gets
// the lease's context, and must stop soon after it ends.
//
// Where there is no lease, fn does not run, and the error is Acquire's. Otherwise the error
// is fn's. If the lock was lost meanwhile, the error Is ErrLost as well. If fn returned nil
// then, it Is ErrLost alone. A release that Redis does not answer, or refuses, is logged
// and told to observers, but not returned: the work was done under the lock. With
// Policy.AsyncRelease less is known when WithLock returns, see there. A panic or
// runtime.Goexit in fn releases the lock and goes on unchanged. Work that ends in one of
// these, or with an error, has failed: see Policy.MinHoldOnError.
func (l *Locker) WithLock(ctx context.Context, key string, p Policy, fn func(ctx context.Context) error) error {
	_, err := WithLock(ctx, l, key, p, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, fn(ctx)
	})
	return err
}

// WithLock runs fn as Locker.WithLock does, and also returns fn's result. Once fn has run,
// it returns that result whatever the error is. If fn did not run, it returns the zero
// value.
func WithLock[T any](ctx context.Context, l *Locker, key string, p Policy, fn func(ctx context.Context) (T, error)) (result T, err error) {
	lease, err := l.acquire(ctx, key, p)
	if err != nil {
		return result, err
	}
	return runUnder(ctx, lease, fn)
}

// WithLocks runs fn under the locks of several keys, as Locker.WithLock does under one. It
// takes all of them, as AcquireAll does. If it cannot, fn does not run, and the error is
// AcquireAll's.
func (l *Locker) WithLocks(ctx context.Context, keys []string, p Policy, fn func(ctx context.Context) error) error {
	lease, err := l.acquireAll(ctx, keys, p)
	if err != nil {
		return err
	}
	_, err = runUnder(ctx, lease, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// runUnder runs fn under a lease, and releases it with ctx. It returns what WithLock
// does.
func runUnder[T any](ctx context.Context, lease *Lease, fn func(ctx context.Context) (T, error)) (result T, err error) {
	failed := true // so is work that panics
	defer func() { // no recover: a panic keeps its value and its stack
		if failed {
			lease.MarkFailed()
		}
		lost := lease.Release(ctx)
		switch {
		case !errors.Is(lost, ErrLost) || errors.Is(err, ErrLost):
		case err == nil:
			err = lost
		default: // one line: errors are logged
			err = fmt.Errorf("%w; %w", err, lost)
		}
	}()
	result, err = fn(lease.Context())
	failed = err != nil
	return result, err
}

// Wrap returns a function that runs fn under the lock of p.Prefix+key(arg), as WithLock
// does. If key returns an error, fn does not run. The error of the call then Is
// ErrInvalidKey, and wraps that of key. Many goroutines may call the returned function at
// the same time, if key and fn allow that. Wrap panics if l, key or fn is nil, or p is
// invalid.
func Wrap[A, R any](l *Locker, key func(A) (string, error), p Policy, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	switch {
	case l == nil:
		panic("lockmw: Wrap: the Locker is nil")
	case key == nil:
		panic("lockmw: Wrap: the key function is nil")
	case fn == nil:
		panic("lockmw: Wrap: the wrapped function is nil")
	}
	if err := l.Validate(p); err != nil {
		panic("lockmw: Wrap: " + err.Error())
	}
	return func(ctx context.Context, arg A) (R, error) {
		k, err := key(arg)
		if err != nil {
			var none R
			return none, l.Refuse(ctx, p, fmt.Errorf("%w: %w", ErrInvalidKey, err))
		}
		return WithLock(ctx, l, k, p, func(ctx context.Context) (R, error) { return fn(ctx, arg) })
	}
}
