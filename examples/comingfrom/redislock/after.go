package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// imports is the lock "lock:{import:<shop>}" in Redis. Without Wait and Retries there is one attempt. The
// TTL is 30 s, and leases are renewed.
var imports = lockmw.Policy{Prefix: "import:"}

// after is before with lockmw.
type after struct {
	locks *lockmw.Locker
	load  func(ctx context.Context, shop string) error
}

func newAfter(client *redis.Client, load func(ctx context.Context, shop string) error) (*after, error) {
	locks, err := lockmw.New(client)
	return &after{locks: locks, load: load}, err
}

// Import imports the catalogue of a shop. It returns errBusy if that is being done already.
func (a *after) Import(ctx context.Context, shop string) error {
	err := a.locks.WithLock(ctx, shop, imports, func(ctx context.Context) error {
		return a.load(ctx, shop)
	})
	if errors.Is(err, lockmw.ErrNotAcquired) {
		return errBusy
	}
	return err
}

// Close ends the locks. Call it last.
func (a *after) Close(ctx context.Context) error { return a.locks.Close(ctx) }
