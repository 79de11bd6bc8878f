// Command annotation pays orders with locks as an annotation in Java takes them (before.go), and beside that with the
// line above a method of lockmw (after.go).
package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
	"github.com/lockmw/kit/lockmw"
)

// errNotPaid stands for an order that was not paid, although there is no error.
var errNotPaid = errors.New("there is no receipt, and no error")

var (
	old = beside.Side{Name: "before", Open: beside.On(func(client *redis.Client, work beside.Work) (*before, error) {
		return &before{client: client, pay: payment(work)}, nil
	}, func(program *before, ctx context.Context, id string) error {
		receipt, err := program.Pay(ctx, Order{ID: id})
		if err == nil && receipt.Order == "" {
			return errNotPaid
		}
		return err
	}, errNotPaid)}
	ours = beside.Side{Name: "after", Open: beside.On(func(client *redis.Client, work beside.Work) (*program, error) {
		locks, err := lockmw.New(client)
		if err != nil {
			return nil, err
		}
		return &program{Payments: LockPayments(after{pay: payment(work)}, locks), locks: locks}, nil
	}, func(program *program, ctx context.Context, id string) error {
		_, err := program.Pay(ctx, Order{ID: id})
		return err
	}, lockmw.ErrNotAcquired)}
)

func main() { beside.Main(old, ours) }

// A program is payments with their locks.
type program struct {
	Payments

	locks *lockmw.Locker
}

// Close ends the locks.
func (p *program) Close(ctx context.Context) error { return p.locks.Close(ctx) }

// payment is work that has a receipt.
func payment(work beside.Work) func(ctx context.Context, order Order) (Receipt, error) {
	return func(ctx context.Context, order Order) (Receipt, error) {
		if err := work(ctx, order.ID); err != nil {
			return Receipt{}, err
		}
		return Receipt{Order: order.ID}, nil
	}
}
