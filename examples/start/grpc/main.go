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

// errNotPaid says that nothing was done: the bank could not be reached, for example.
var errNotPaid = errors.New("nothing was paid")

// newServer returns the server with its locks. charge is what takes the customer's money. The interceptors stand last in
// their chains: behind recovery, logs and authorisation.
func newServer(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) *grpc.Server {
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

	charge func(ctx context.Context, order int64) error
}

func (o orders) Pay(ctx context.Context, r *shopv1.PayRequest) (*shopv1.PayReply, error) {
	switch err := o.charge(ctx, r.GetOrderId()); { // if the lock is lost, ctx ends, and the client gets LOCK_LOST whatever this returns
	case errors.Is(err, errNotPaid):
		lockmw.NotAnAnswer(ctx) // behind Idempotent, this answer is not kept: the next call pays
		return nil, status.Error(codes.Internal, "not paid")
	case err != nil: // the bank has not answered in time, for example
		lockmw.MarkUncertain(ctx) // behind Idempotent, the next call is told so, and does not pay
		return nil, status.Error(codes.Internal, "paid or not: nobody knows")
	}
	return &shopv1.PayReply{Text: "paid"}, nil
}

// charge stands for your work. Yours first checks whether the order is already paid, or somebody has begun to, and notes that it begins: nobody
// else pays it meanwhile.
func charge(ctx context.Context, order int64) error {
	if lease, _ := lockmw.FromContext(ctx); !lease.Valid() { // directly before the payment
		return errNotPaid
	}
	select {
	case <-time.After(300 * time.Millisecond):
		slog.Info("paid", "order", order)
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
	stop() // a second signal ends the program at once
	return errors.Join(shutDown(server, locks, 20*time.Second, 5*time.Second), client.Close())
}

// shutDown ends the server, and then the locks. Calls have inTime to end by themselves, and after to stop when their contexts have ended.
func shutDown(server *grpc.Server, locks *lockmw.Locker, inTime, after time.Duration) error {
	ended := make(chan struct{})
	go func() {
		server.GracefulStop() // waits for every call, also for one that hangs
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-time.After(inTime):
		err = errors.New("some calls did not end in time")
		go server.Stop() // ends the contexts of the calls that are left. It may wait for their methods, too, so nothing here waits for it
	}
	last, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	return errors.Join(err, locks.Close(last)) // waits for the calls that end now, and then takes the locks from those that hang
}
