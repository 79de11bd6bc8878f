package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/lockmw"
)

// step is how long a step of the work takes.
const step = time.Second

// orders is the service.
type orders struct {
	shopv1.UnimplementedOrdersServer
}

// Pay runs while nobody else pays the order.
func (orders) Pay(ctx context.Context, r *shopv1.PayRequest) (*shopv1.PayReply, error) {
	if err := work(ctx); err != nil {
		return nil, err
	}
	lease, _ := lockmw.FromContext(ctx)
	if !lease.Valid() { // right before the side effect
		return nil, status.Error(codes.Aborted, "the lock is over, and the order not paid")
	}
	return &shopv1.PayReply{Text: fmt.Sprintf("order %d is paid (fence %d)", r.GetOrderId(), lease.Fence())}, nil
}

// Pack tells of each step; nobody else packs the order meanwhile.
func (orders) Pack(r *shopv1.PackRequest, stream grpc.ServerStreamingServer[shopv1.PackReply]) error {
	for _, what := range []string{"picked", "wrapped", "labelled"} {
		if err := work(stream.Context()); err != nil {
			return err
		}
		if err := stream.Send(&shopv1.PackReply{Text: fmt.Sprintf("order %d is %s", r.GetOrderId(), what)}); err != nil {
			return err
		}
	}
	return nil
}

// work ends early if the lock is lost, or the client leaves.
func work(ctx context.Context) error {
	select {
	case <-time.After(step):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
