package grpclock_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// openLocks returns a Locker on a Redis inside this program. A service passes its
// own client to New.
func openLocks() (locks *lockmw.Locker, closeAll func()) {
	client, closeRedis := redistest.Example()
	locks, err := lockmw.New(client)
	if err != nil {
		log.Fatal(err)
	}
	return locks, func() {
		_ = locks.Close(context.Background())
		closeRedis()
	}
}

// payments pays each order while nobody else does.
type payments struct {
	shopv1.UnimplementedOrdersServer
}

func (payments) Pay(ctx context.Context, r *shopv1.PayRequest) (*shopv1.PayReply, error) {
	lease, locked := lockmw.FromContext(ctx)
	if !locked {
		return &shopv1.PayReply{Text: fmt.Sprintf("order %d is paid", r.GetOrderId())}, nil
	}
	return &shopv1.PayReply{Text: fmt.Sprintf("order %d is paid under the lock %s", r.GetOrderId(), lease.Key())}, nil
}

// serveOrders serves payments until closed, and returns a client.
func serveOrders(server *grpc.Server) (client shopv1.OrdersClient, closeAll func()) {
	shopv1.RegisterOrdersServer(server, payments{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return shopv1.NewOrdersClient(conn), func() {
		_ = conn.Close()
		server.Stop()
	}
}

func Example() {
	locks, closeLocks := openLocks()
	defer closeLocks()

	rules := grpclock.Rules{"/shop.v1.Orders/Pay": {
		Key:    keyfunc.MustParse("{body.order_id}"),
		Policy: lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second},
	}}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(locks, rules)),
		grpc.ChainStreamInterceptor(grpclock.StreamServerInterceptor(locks, rules)),
	)

	client, closeServer := serveOrders(server)
	defer closeServer()
	reply, err := client.Pay(context.Background(), &shopv1.PayRequest{OrderId: 42})
	fmt.Println(reply.GetText(), err)
	// Output: order 42 is paid under the lock order:42 <nil>
}

// The .proto file of shop.v1 says beside Pay that it is locked by its order.
// The rule given in code wins: here it has calls fail that have to wait.
func ExampleAnnotated() {
	rules, err := grpclock.Annotated("shop.v1.Orders")
	if err != nil {
		log.Fatal(err)
	}
	rules = rules.With(grpclock.Rules{"/shop.v1.Orders/Pay": {
		Key:    keyfunc.MustParse("{body.order_id}"),
		Policy: lockmw.Policy{Prefix: "order:"},
	}})

	locks, closeLocks := openLocks()
	defer closeLocks()
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(locks, rules)),
		grpc.ChainStreamInterceptor(grpclock.StreamServerInterceptor(locks, rules)),
	)

	client, closeServer := serveOrders(server)
	defer closeServer()
	err = locks.WithLock(context.Background(), "42", lockmw.Policy{Prefix: "order:"}, func(ctx context.Context) error {
		_, err := client.Pay(ctx, &shopv1.PayRequest{OrderId: 42})
		return err
	})
	fmt.Println(status.Code(err), status.Convert(err).Message())
	// Output: Aborted Another request is at work on the same resource.
}

type userKey struct{}

// The tenant is what authentication has found out, so that no tenant can block
// another's orders. It comes before the lock in the chain.
func ExampleWithValues() {
	locks, closeLocks := openLocks()
	defer closeLocks()
	authenticate := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(context.WithValue(ctx, userKey{}, "acme"), req)
	}
	rules := grpclock.Rules{"/shop.v1.Orders/Pay": {
		Key:    keyfunc.MustParse("{value.tenant}:{body.order_id}"),
		Policy: lockmw.Policy{Prefix: "order:"},
	}}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(
		authenticate,
		grpclock.UnaryServerInterceptor(locks, rules, grpclock.WithValues(func(ctx context.Context, name string) (any, bool) {
			tenant, ok := ctx.Value(userKey{}).(string)
			return tenant, ok && name == "tenant"
		})),
	))

	client, closeServer := serveOrders(server)
	defer closeServer()
	reply, err := client.Pay(context.Background(), &shopv1.PayRequest{OrderId: 42})
	fmt.Println(reply.GetText(), err)
	// Output: order 42 is paid under the lock order:acme:42 <nil>
}

func ExampleKey() {
	locks, closeLocks := openLocks()
	defer closeLocks()
	rules := grpclock.Rules{"/shop.v1.Orders/Pay": {
		Key: grpclock.Key(func(_ context.Context, req any) (string, error) {
			return fmt.Sprintf("shard-%d", req.(*shopv1.PayRequest).GetOrderId()%8), nil
		}),
	}}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(locks, rules)))

	client, closeServer := serveOrders(server)
	defer closeServer()
	reply, err := client.Pay(context.Background(), &shopv1.PayRequest{OrderId: 42})
	fmt.Println(reply.GetText(), err)
	// Output: order 42 is paid under the lock shard-2 <nil>
}
