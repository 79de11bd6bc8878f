package connectlock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/connectlock"
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

const payProcedure = "/shop.v1.Orders/Pay"

// newOrdersHandler stands for what protoc-gen-connect-go makes of a service.
func newOrdersHandler(opts ...connect.HandlerOption) (string, http.Handler) {
	return payProcedure, connect.NewUnaryHandler(payProcedure, func(ctx context.Context, r *connect.Request[shopv1.PayRequest]) (*connect.Response[shopv1.PayReply], error) {
		lease, _ := lockmw.FromContext(ctx)
		return connect.NewResponse(&shopv1.PayReply{Text: fmt.Sprintf("order %d is paid under the lock %s", r.Msg.GetOrderId(), lease.Key())}), nil
	}, opts...)
}

func Example() {
	locks, closeLocks := openLocks()
	defer closeLocks()

	rules := grpclock.Rules{"/shop.v1.Orders/Pay": {
		Key:    keyfunc.MustParse("{body.order_id}"),
		Policy: lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second},
	}}
	mux := http.NewServeMux()
	mux.Handle(newOrdersHandler(connect.WithInterceptors(connectlock.Interceptor(locks, rules))))

	server := httptest.NewServer(mux)
	defer server.Close()
	client := connect.NewClient[shopv1.PayRequest, shopv1.PayReply](server.Client(), server.URL+payProcedure)
	reply, err := client.CallUnary(context.Background(), connect.NewRequest(&shopv1.PayRequest{OrderId: 42}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Msg.GetText())
	// Output: order 42 is paid under the lock order:42
}

// A client reads why it was refused. Here the rule is the annotation in the .proto file,
// replaced by one that does not wait.
func ExampleCodeOf() {
	rules, err := grpclock.Annotated("shop.v1.Orders")
	if err != nil {
		log.Fatal(err)
	}
	rules = rules.With(grpclock.Rules{payProcedure: {
		Key:    keyfunc.MustParse("{body.order_id}"),
		Policy: lockmw.Policy{Prefix: "order:"},
	}})
	locks, closeLocks := openLocks()
	defer closeLocks()
	mux := http.NewServeMux()
	mux.Handle(newOrdersHandler(connect.WithInterceptors(connectlock.Interceptor(locks, rules))))
	server := httptest.NewServer(mux)
	defer server.Close()

	client := connect.NewClient[shopv1.PayRequest, shopv1.PayReply](server.Client(), server.URL+payProcedure)
	err = locks.WithLock(context.Background(), "42", lockmw.Policy{Prefix: "order:"}, func(ctx context.Context) error {
		_, err := client.CallUnary(ctx, connect.NewRequest(&shopv1.PayRequest{OrderId: 42}))
		return err
	})
	fmt.Println(connectlock.CodeOf(err))
	fmt.Println(err)
	// Output:
	// LOCK_BUSY
	// aborted: Another request is at work on the same resource.
}
