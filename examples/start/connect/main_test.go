package main

import (
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestAnOrderIsPaidByOneAtATime(t *testing.T) {
	locks := locktest.New(t) // over a Redis inside the test
	server := httptest.NewServer(routes(locks, charge))
	defer server.Close()
	client := connect.NewClient[shopv1.PayRequest, shopv1.PayReply](server.Client(), server.URL+payMethod)

	release := locktest.Hold(t, locks, "order:42") // as another process would
	_, err := client.CallUnary(t.Context(), connect.NewRequest(&shopv1.PayRequest{OrderId: 42}))
	if connect.CodeOf(err) != connect.CodeAborted || connectlock.CodeOf(err) != lockmw.CodeWaitTimeout {
		t.Errorf("%v, want Aborted", err)
	}
	release()
	if _, err := client.CallUnary(t.Context(), connect.NewRequest(&shopv1.PayRequest{OrderId: 42})); err != nil {
		t.Error(err)
	}
}
