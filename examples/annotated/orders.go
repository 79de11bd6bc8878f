package main

import (
	"context"
	"sync/atomic"
	"time"
)

//go:generate go run ../../cmd/lockgen

// An Order is what a customer pays for.
type Order struct {
	ID    string
	Cents int64
}

// Receipt is the answer to a payment.
type Receipt struct{ Payments int64 }

// Orders are a part of the shop that others see as an interface. lockgen makes
// LockOrders of it.
type Orders interface {
	// Pay charges the customer.
	//
	//lockmw:lock {order.ID|lower} prefix=order: ttl=3s wait=1m
	Pay(ctx context.Context, order Order) (Receipt, error)
	// Payments tells how many payments were made. It takes no lock.
	Payments() int64
}

// A Ledger counts payments: it reads the number, and writes it back a moment later.
type Ledger struct{ payments atomic.Int64 } // reading and writing are two steps all the same

// Pay adds a payment.
func (l *Ledger) Pay(ctx context.Context, _ Order) (Receipt, error) {
	n := l.payments.Load() + 1
	time.Sleep(time.Millisecond)
	l.payments.Store(n)
	return Receipt{Payments: n}, ctx.Err()
}

// Payments returns the number.
func (l *Ledger) Payments() int64 { return l.payments.Load() }
