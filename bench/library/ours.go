package library

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// manyWaiters is more than any measurement has: the defaults protect a
// service, and are not what is measured.
const manyWaiters = 1_000_000

// NewLockmw returns a Locker of this library as it is measured.
func NewLockmw(client *redis.Client) (*lockmw.Locker, error) {
	return lockmw.New(client, lockmw.WithMaxWaiters(manyWaiters, manyWaiters))
}

type ours struct {
	client *redis.Client
	locks  *lockmw.Locker
	policy lockmw.Policy
}

func openOurs(client *redis.Client, p lockmw.Policy) (Locker, error) {
	locks, err := NewLockmw(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &ours{client: client, locks: locks, policy: p}, nil
}

func (o *ours) Lock(ctx context.Context, key string) (func() error, error) {
	_, lease, err := o.locks.Acquire(ctx, key, o.policy)
	if err != nil {
		return nil, err
	}
	return func() error { return lease.Release(ctx) }, nil
}

func (o *ours) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(o.locks.Close(ctx), o.client.Close())
}
