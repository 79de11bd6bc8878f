package main

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/locktest"
)

// GracefulStop waits for a method that does not look at its context, as long as that takes, and in gRPC 1.83 Stop waits for GracefulStop.
func TestACallThatHangsKeepsNeitherTheProgramNorItsLock(t *testing.T) {
	t.Run("its client waits", func(t *testing.T) { hang(t, false) })
	t.Run("its client has left", func(t *testing.T) { hang(t, true) })
}

func hang(t *testing.T, leaves bool) {
	t.Helper()
	locks := locktest.New(t)
	began, hangs, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	server := newServer(locks, func(context.Context, int64) error {
		defer close(over)
		close(began)
		<-hangs
		return nil
	})
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	conn, err := grpc.NewClient("passthrough:///orders", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := shopv1.NewOrdersClient(conn).Pay(t.Context(), &shopv1.PayRequest{OrderId: 42})
		answered <- err
	}()
	<-began
	if leaves {
		_ = conn.Close()
	}

	ended := make(chan error, 1)
	go func() { ended <- shutDown(server, locks, 100*time.Millisecond, 100*time.Millisecond) }()
	select {
	case err := <-ended:
		if keys := locktest.Keys(t, locks); err == nil || len(keys) > 0 {
			t.Errorf("err = %v, locked are %q; want an error, and none", err, keys)
		}
	case <-time.After(10 * time.Second):
		t.Error("it has not ended after 10 s")
	}
	close(hangs) // in the program, the end of the process ends the method
	<-over
	_ = conn.Close()
	if err := <-answered; err == nil {
		t.Error("the call has succeeded")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
