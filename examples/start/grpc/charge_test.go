package main

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/locktest"
)

func TestNothingIsPaidWithoutTheLock(t *testing.T) {
	if err := charge(t.Context(), 42); !errors.Is(err, errNotPaid) {
		t.Errorf("err = %v, want that nothing was paid", err)
	}
}

func TestTheClientLearnsWhetherTheOrderIsPaid(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		text string
		code codes.Code
	}{
		"paid":     {nil, "paid", codes.OK},
		"not paid": {errNotPaid, "not paid", codes.Internal},
		"unknown":  {context.DeadlineExceeded, "paid or not: nobody knows", codes.Internal},
	} {
		var paid int64
		client := serve(t, locktest.New(t), func(_ context.Context, order int64) error {
			paid = order
			return tc.err
		})
		reply, err := client.Pay(t.Context(), &shopv1.PayRequest{OrderId: 42})
		text := reply.GetText()
		if err != nil {
			text = status.Convert(err).Message()
		}
		if status.Code(err) != tc.code || text != tc.text || paid != 42 {
			t.Errorf("%s: %v %q for order %d, want %v %q for 42", name, status.Code(err), text, paid, tc.code, tc.text)
		}
	}
}
