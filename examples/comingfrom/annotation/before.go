package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/standin"
)

// before pays orders, one payment of an order at a time. In Java it is
//
//	@DistributedLock(prefix = "pay-", value = "#order.id", keyTimeout = 10000, retryCount = 10, retryInterval = 100)
//	public Receipt pay(Order order) { … }
//
// That the aspect puts the key between "lock:{" and "}" is all that has to change while both versions run.
type before struct {
	client *redis.Client
	pay    func(ctx context.Context, order Order) (Receipt, error)
}

var payLock = standin.DistributedLock{
	Prefix:        "pay-",
	KeyTimeout:    10 * time.Second,
	RetryCount:    10,
	RetryInterval: 100 * time.Millisecond,
	Format:        "lock:{%s}",
}

// Pay pays an order. Nobody is told where it does not: the receipt is empty then, as in Java it is null.
func (b *before) Pay(ctx context.Context, order Order) (receipt Receipt, err error) {
	err = payLock.Around(ctx, b.client, order.ID, func(ctx context.Context) error {
		receipt, err = b.pay(ctx, order) // for ten seconds at most, or it goes on without its lock
		return err
	})
	return receipt, err
}
