package main

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// serve returns a client of the server, over a connection in memory.
func serve(t *testing.T, locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) shopv1.OrdersClient {
	t.Helper()
	listener, server := bufconn.Listen(1<<20), newServer(locks, charge)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	conn, err := grpc.NewClient("passthrough:///orders", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return shopv1.NewOrdersClient(conn)
}

func TestAnOrderIsPaidByOneAtATime(t *testing.T) {
	locks := locktest.New(t) // over a Redis inside the test
	client := serve(t, locks, charge)
	release := locktest.Hold(t, locks, "order:42") // as another process would
	_, err := client.Pay(t.Context(), &shopv1.PayRequest{OrderId: 42})
	if status.Code(err) != codes.Aborted || grpclock.CodeOf(err) != lockmw.CodeWaitTimeout {
		t.Errorf("%v, want Aborted", err)
	}
	release()
	if _, err := client.Pay(t.Context(), &shopv1.PayRequest{OrderId: 42}); err != nil {
		t.Error(err)
	}
}
