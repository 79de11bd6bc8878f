package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// indices is the lock "rueidislock:0:{index:<tenant>}" in Redis, with the namespace below. A release of
// rueidislock tells our waiters nothing, and theirs are told of each: while both versions run, ours ask
// often, or they would hardly get the lock.
var indices = lockmw.Policy{Prefix: "index:", Wait: wait, RetryInterval: 10 * time.Millisecond}

// after is before with lockmw.
type after struct {
	locks   *lockmw.Locker
	rebuild func(ctx context.Context, tenant string) error
}

// newAfter returns a program whose locks are those of newBefore's. The namespace is theirs for good, or
// until all are moved and stopped once.
func newAfter(client *redis.Client, rebuild func(ctx context.Context, tenant string) error) (*after, error) {
	locks, err := lockmw.New(client, lockmw.WithNamespace("rueidislock:0"))
	return &after{locks: locks, rebuild: rebuild}, err
}

// Rebuild rebuilds the index of a tenant. It returns errBusy if another rebuild takes too long.
func (a *after) Rebuild(ctx context.Context, tenant string) error {
	err := a.locks.WithLock(ctx, tenant, indices, func(ctx context.Context) error {
		return a.rebuild(ctx, tenant)
	})
	if errors.Is(err, lockmw.ErrNotAcquired) {
		return errBusy
	}
	return err
}

// Close ends the locks. Call it last.
func (a *after) Close(ctx context.Context) error { return a.locks.Close(ctx) }
