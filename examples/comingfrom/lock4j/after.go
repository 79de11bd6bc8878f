package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// orders is the lock "lock4j:{order#<id>}" in Redis, with the namespace below. The TTL is expire, but only for crashes:
// leases are renewed.
var orders = lockmw.Policy{Prefix: "order#", TTL: 10 * time.Second, Wait: 2 * time.Second, RetryInterval: 20 * time.Millisecond}

// after is before with lockmw.
type after struct {
	locks *lockmw.Locker

	// Pay pays an order. Its error is lockmw.ErrNotAcquired if another payment of the order takes too long.
	Pay func(ctx context.Context, id string) (Receipt, error)
}

func newAfter(client *redis.Client, pay func(ctx context.Context, id string) (Receipt, error)) (*after, error) {
	locks, err := lockmw.New(client, lockmw.WithNamespace("lock4j"))
	if err != nil {
		return nil, err
	}
	key := func(id string) (string, error) { return id, nil }
	return &after{locks: locks, Pay: lockmw.Wrap(locks, key, orders, pay)}, nil
}

// Close ends the locks. Call it last.
func (a *after) Close(ctx context.Context) error { return a.locks.Close(ctx) }
