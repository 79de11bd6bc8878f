package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/standin"
)

// before pays orders, one payment of an order at a time. In Java it is
//
//	@Lock4j(name = "{order", keys = "#id + '}'", expire = 10000, acquireTimeout = 2000)
//	public Receipt pay(String id) { … }
//
// The braces are all that has to change while both versions run: it was name = "order", keys = "#id". The key in
// Redis is "lock4j:{order#<id>}".
type before struct {
	locks *standin.Lock4j
	pay   func(ctx context.Context, id string) (Receipt, error)
}

func newBefore(client *redis.Client, pay func(ctx context.Context, id string) (Receipt, error)) *before {
	return &before{locks: &standin.Lock4j{Client: client, Prefix: "lock4j"}, pay: pay}
}

// Pay pays an order. It returns standin.ErrLockFailure if another payment of the order takes too long.
func (b *before) Pay(ctx context.Context, id string) (receipt Receipt, err error) {
	err = b.locks.Invoke(ctx, "{order", []string{id + "}"}, 10*time.Second, 2*time.Second, func(ctx context.Context) error {
		receipt, err = b.pay(ctx, id) // for ten seconds at most, or it goes on without its lock
		return err
	})
	return receipt, err
}
