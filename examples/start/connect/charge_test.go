package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/locktest"
)

func TestNothingIsPaidWithoutTheLock(t *testing.T) {
	if err := charge(t.Context(), 42); !errors.Is(err, errNotPaid) {
		t.Errorf("err = %v, want that nothing was paid", err)
	}
}

func TestTheClientLearnsWhetherTheOrderIsPaid(t *testing.T) {
	for want, fails := range map[string]error{
		"<nil>":                               nil,
		"internal: not paid":                  errNotPaid,
		"internal: paid or not: nobody knows": context.DeadlineExceeded,
	} {
		var paid int64
		server := httptest.NewServer(routes(locktest.New(t), func(_ context.Context, order int64) error {
			paid = order
			return fails
		}))
		client := connect.NewClient[shopv1.PayRequest, shopv1.PayReply](server.Client(), server.URL+payMethod)
		_, err := client.CallUnary(t.Context(), connect.NewRequest(&shopv1.PayRequest{OrderId: 42}))
		server.Close()
		got := "<nil>"
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || paid != 42 {
			t.Errorf("%q for order %d, want %q for 42", got, paid, want)
		}
	}
}
