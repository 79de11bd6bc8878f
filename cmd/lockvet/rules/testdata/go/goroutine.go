package goroutines

import (
	"context"
	"sync"

	"github.com/lockmw/kit/lockmw"
)

var (
	locks  *lockmw.Locker
	policy lockmw.Policy
)

func export(context.Context) error { return nil }

func lost(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go export(ctx) // want `the goroutine goes on when the lock is released`
		return nil
	})
}

func lostInALoop(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		for range 3 {
			go func() { _ = export(ctx) }() // want `the goroutine goes on when the lock is released`
		}
		return nil
	})
}

func awaited(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		var all sync.WaitGroup
		for range 3 {
			all.Add(1)
			go func() {
				defer all.Done()
				_ = export(ctx)
			}()
		}
		all.Wait()
		return nil
	})
}

func received(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- export(ctx) }()
		return <-done
	})
}

func selected(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- export(ctx) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func ranged(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		parts := make(chan int)
		go func() { defer close(parts); _ = export(ctx) }()
		for range parts {
		}
		return nil
	})
}

func outside(ctx context.Context) error {
	go export(ctx)
	return locks.WithLock(ctx, "42", policy, export)
}
