package main

import "context"

//go:generate go run github.com/lockmw/kit/cmd/lockgen

// An Order is what a customer pays for.
type Order struct{ ID string }

// A Receipt is the answer to a payment.
type Receipt struct{ Order string }

// Payments is what the shop calls. LockPayments, which lockgen has made of the line above Pay, takes the lock
// "lock:{pay-<id>}" in Redis.
type Payments interface {
	// Pay pays an order. Its error is lockmw.ErrNotAcquired if another payment of the order takes too long.
	//
	//lockmw:lock {order.ID} prefix=pay- ttl=10s retries=10 retry_interval=100ms
	Pay(ctx context.Context, order Order) (Receipt, error)
}

// after pays orders. It knows nothing of locks.
type after struct {
	pay func(ctx context.Context, order Order) (Receipt, error)
}

// Pay pays an order.
func (a after) Pay(ctx context.Context, order Order) (Receipt, error) { return a.pay(ctx, order) }
