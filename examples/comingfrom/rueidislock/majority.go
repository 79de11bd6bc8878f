package main

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockmw/kit/lockmw"
)

// By default, rueidislock needs two of three keys for a lock, and any two will do. A lock of ours is one key,
// so neither sees the other. What helps is a version in between that takes both locks:
//
//  1. before, with three keys, everywhere;
//  2. between is rolled out, and excludes before;
//  3. when no before is left, after is rolled out, and excludes between.

// newBeforeMajority returns before with the keys that are rueidislock's default.
func newBeforeMajority(addr string, rebuild func(ctx context.Context, tenant string) error) (*before, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		TryNextAfter: patience,
	})
	return &before{locks: locks, name: "index:%s", rebuild: rebuild}, err
}

// newAfterMajority returns after with the namespace "lock", the default: no name has to fit.
func newAfterMajority(client *redis.Client, rebuild func(ctx context.Context, tenant string) error) (*after, error) {
	locks, err := lockmw.New(client)
	return &after{locks: locks, rebuild: rebuild}, err
}

// between takes the lock of before and then the lock of after. All that take both take them in this order,
// or two of them could wait for each other.
type between struct {
	before *before
	after  *after
}

func newBetween(client *redis.Client, rebuild func(ctx context.Context, tenant string) error) (*between, error) {
	inner, err := newAfterMajority(client, rebuild)
	if err != nil {
		return nil, err
	}
	outer, err := newBeforeMajority(client.Options().Addr, inner.Rebuild)
	return &between{before: outer, after: inner}, err
}

// Rebuild rebuilds the index of a tenant. It returns errBusy if another rebuild takes too long.
func (b *between) Rebuild(ctx context.Context, tenant string) error {
	return b.before.Rebuild(ctx, tenant)
}

// Close ends the locks.
func (b *between) Close(ctx context.Context) error {
	b.before.Close()
	return b.after.Close(ctx)
}
