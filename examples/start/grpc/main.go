// Command grpc pays orders. In all its processes together, only one call at a time works on an order.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/examples/grpc/shopv1" // yours: generated from your .proto file
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// newServer returns the server with its locks. charge is what takes the customer's money. The interceptors stand last in
// their chains: behind recovery, logs and authorisation.
func newServer(locks *lockmw.Locker, charge func(context.Context) error) *grpc.Server {
	rules := grpclock.Rules{
		"/shop.v1.Orders/Pay": {Key: keyfunc.MustParse("{body.order_id}"), Policy: lockmw.Policy{Name: "pay", Prefix: "order:", Wait: time.Second}},
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(locks, rules)),
		grpc.ChainStreamInterceptor(grpclock.StreamServerInterceptor(locks, rules)))
	shopv1.RegisterOrdersServer(server, orders{charge: charge})
	return server
}

type orders struct {
	shopv1.UnimplementedOrdersServer

	charge func(context.Context) error
}

func (o orders) Pay(ctx context.Context, _ *shopv1.PayRequest) (*shopv1.PayReply, error) {
	if err := o.charge(ctx); err != nil { // if the lock is lost, ctx ends, and the client gets LOCK_LOST whatever this returns
		return nil, status.Error(codes.Internal, "not paid")
	}
	return &shopv1.PayReply{Text: "paid"}, nil
}

// charge stands for your work. Yours also gets the order's id. It first checks whether that order is already paid: nobody else pays it meanwhile.
// Directly before the payment it checks lease.Valid().
func charge(ctx context.Context) error {
	select {
	case <-time.After(300 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")})
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	if err := locks.Ping(ctx); err != nil { // for a second at most; start all the same: locks work as soon as Redis is there
		slog.Warn("locks do not work", "error", err) // the error says what to do
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":50051"))
	if err != nil {
		return err
	}
	server := newServer(locks, charge)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stopTimer := context.AfterFunc(last, server.Stop) // after 20 s, end the calls that hang: GracefulStop would wait for them for ever
	defer stopTimer()
	server.GracefulStop()
	return errors.Join(locks.Close(last), client.Close()) // after the last call
}
