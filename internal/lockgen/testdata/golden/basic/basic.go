// Package basic has an interface with the most common directives.
package basic

import "context"

type Customer struct{ ID string }

type Order struct {
	ID       string
	Shelf    int
	Customer *Customer
}

type Receipt struct{ Number int }

// Orders are what the shop does with orders.
type Orders interface {
	// Pay charges the customer.
	//
	//lockmw:lock {order.ID|lower} prefix=order: ttl=3s retries=3 retry_interval=200ms
	Pay(ctx context.Context, order Order) (Receipt, error)
	//lockmw:lock {from} {to} prefix=order: wait=2s
	Merge(ctx context.Context, from, to string) error
	//lockmw:lock shelf:{order.Shelf}:{order.ID}
	Store(ctx context.Context, order *Order) (shelf int, name string, err error)
	// Count takes no lock.
	Count(ctx context.Context) (int, error)
	// Len has no context, and needs none.
	Len() int
	// Reset returns nothing.
	Reset(_ context.Context, _ ...int)
}

// Orders2 is embedded by another package.
type Orders2 interface {
	Foreign(ctx context.Context, order Order) error
}
