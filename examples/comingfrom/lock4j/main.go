// Command lock4j pays orders with locks as lock4j takes them (before.go), and beside that with lockmw (after.go).
package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
	"github.com/lockmw/kit/examples/comingfrom/internal/standin"
	"github.com/lockmw/kit/lockmw"
)

// A Receipt is the answer to a payment.
type Receipt struct{ Order string }

var (
	old = beside.Side{Name: "before", Open: beside.On(func(client *redis.Client, work beside.Work) (*before, error) {
		return newBefore(client, payment(work)), nil
	}, func(program *before, ctx context.Context, id string) error {
		_, err := program.Pay(ctx, id)
		return err
	}, standin.ErrLockFailure)}
	ours = beside.Side{Name: "after", Open: beside.On(func(client *redis.Client, work beside.Work) (*after, error) {
		return newAfter(client, payment(work))
	}, func(program *after, ctx context.Context, id string) error {
		_, err := program.Pay(ctx, id)
		return err
	}, lockmw.ErrNotAcquired)}
)

func main() { beside.Main(old, ours) }

// payment is work that has a receipt.
func payment(work beside.Work) func(ctx context.Context, id string) (Receipt, error) {
	return func(ctx context.Context, id string) (Receipt, error) {
		if err := work(ctx, id); err != nil {
			return Receipt{}, err
		}
		return Receipt{Order: id}, nil
	}
}
