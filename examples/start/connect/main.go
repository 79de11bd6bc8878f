// Command connect pays orders. In all its processes together, only one call at a time works on an order.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/examples/grpc/shopv1" // yours: generated from your .proto file
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

const payMethod = "/shop.v1.Orders/Pay"

// errNotPaid says that nothing was done: the bank could not be reached, for example.
var errNotPaid = errors.New("nothing was paid")

// routes returns the service with its locks. charge is what takes the customer's money.
func routes(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler {
	rules := connectlock.Rules{
		payMethod: {Key: keyfunc.MustParse("{body.order_id}"), Policy: lockmw.Policy{Name: "pay", Prefix: "order:", Wait: time.Second}},
	}
	shop := orders{charge: charge}
	mux := http.NewServeMux()
	// With the code of protoc-gen-connect-go, write mux.Handle(shopv1connect.NewOrdersHandler(shop, connect.WithInterceptors(…))).
	mux.Handle(payMethod, connect.NewUnaryHandler(payMethod, shop.Pay, connect.WithInterceptors(connectlock.Interceptor(locks, rules))))
	return mux
}

type orders struct {
	charge func(ctx context.Context, order int64) error
}

func (o orders) Pay(ctx context.Context, r *connect.Request[shopv1.PayRequest]) (*connect.Response[shopv1.PayReply], error) {
	switch err := o.charge(ctx, r.Msg.GetOrderId()); { // if the lock is lost, ctx ends, and the client gets LOCK_LOST whatever this returns
	case errors.Is(err, errNotPaid):
		lockmw.NotAnAnswer(ctx) // behind Idempotent, this answer is not kept: the next call pays
		return nil, connect.NewError(connect.CodeInternal, errors.New("not paid"))
	case err != nil: // the bank has not answered in time, for example
		lockmw.MarkUncertain(ctx) // behind Idempotent, the next call is told so, and does not pay
		return nil, connect.NewError(connect.CodeInternal, errors.New("paid or not: nobody knows"))
	}
	return connect.NewResponse(&shopv1.PayReply{Text: "paid"}), nil
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
	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDR"), ":8080"), Handler: routes(locks, charge), ReadHeaderTimeout: 5 * time.Second}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for clients of gRPC, where there is no TLS
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the program at once
	return errors.Join(shutDown(server, locks, 20*time.Second, 5*time.Second), client.Close())
}

// shutDown ends the server, and then the locks. Calls have inTime to end by themselves, and after to stop when their contexts have ended.
func shutDown(server *http.Server, locks *lockmw.Locker, inTime, after time.Duration) error {
	last, cancel := context.WithTimeout(context.Background(), inTime)
	defer cancel()
	err := server.Shutdown(last) // waits for the calls that are at work
	if err != nil {
		err = errors.Join(err, server.Close()) // ends the contexts of those that are left
	}
	last, cancel = context.WithTimeout(context.Background(), after)
	defer cancel()
	return errors.Join(err, locks.Close(last)) // waits until they have given their locks back, and then takes the locks of those that hang
}
