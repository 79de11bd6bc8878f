package main

import (
	"context"
	"testing"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// docs/testing.md shows this as the example for gRPC.
func TestPaymentStopsWhenTheLockIsLost(t *testing.T) {
	locks := locktest.New(t)
	client := serve(t, locks, func(ctx context.Context, _ int64) error {
		locktest.Lose(t, locks, "order:42") // takes the lock away; the context ends at once
		return ctx.Err()                    // not nil: the context has ended
	})
	_, err := client.Pay(t.Context(), &shopv1.PayRequest{OrderId: 42})
	if grpclock.CodeOf(err) != lockmw.CodeLost {
		t.Errorf("err = %v, want LOCK_LOST", err)
	}
}
