// Command grpc is a shop whose methods are locked by what stands beside them
// in proto/shop/v1/orders.proto.
//
//	go run ./examples/grpc          # the server; REDIS_ADDR names a Redis, empty means an embedded one
//	go run ./examples/grpc pay 42   # a client; try two at the same time, and two of different orders
//	go run ./examples/grpc pack 42  # a stream; a second one meanwhile is refused
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/examples/internal/demo"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/lockmw"
)

func main() {
	addr := flag.String("addr", "localhost:50051", "where the server listens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *addr, flag.Args(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

// run is a client if args say what to do, otherwise the server.
func run(ctx context.Context, addr string, args []string, out io.Writer) error {
	if len(args) > 0 {
		return ask(ctx, addr, args, out)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the shop listens at %s; try: go run ./examples/grpc pay 42\n", listener.Addr())
	return serve(ctx, listener)
}

// serve runs the shop until ctx ends.
func serve(ctx context.Context, listener net.Listener) error {
	client, done, err := demo.Open(ctx)
	if err != nil {
		return err
	}
	defer done()
	locks, err := lockmw.New(client)
	if err != nil {
		return err
	}
	server, err := newServer(locks)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		err = stop(server)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), toEnd)
	defer cancel()
	return errors.Join(err, locks.Close(last))
}

// toEnd is how long calls have to end when the server does.
const toEnd = 10 * time.Second

// stop ends the server, also if a call hangs. The error says that one did.
func stop(server *grpc.Server) error {
	ended := make(chan struct{})
	go func() {
		server.GracefulStop() // waits for every call, also for one that hangs
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(toEnd):
		go server.Stop() // ends the contexts of the calls that are left. It may wait for their methods, too, so nothing here waits for it
		return errors.New("some calls did not end in time")
	}
}

// newServer returns a server whose methods are locked as their annotations
// say.
func newServer(locks *lockmw.Locker) (*grpc.Server, error) {
	rules, err := grpclock.Annotated("shop.v1.Orders")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(locks, rules)),
		grpc.ChainStreamInterceptor(grpclock.StreamServerInterceptor(locks, rules)),
	)
	shopv1.RegisterOrdersServer(server, orders{})
	reflection.Register(server)
	return server, nil
}
