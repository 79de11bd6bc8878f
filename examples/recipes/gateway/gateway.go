package gateway

// This file serves a gRPC service as JSON over HTTP, without going round its locks. It stands beside
// what protoc-gen-grpc-gateway has generated, in the same package.

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockmw/kit/examples/grpc/shopv1" // your own package of the service
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/lockmw"
)

// NewServer returns the gRPC server. Its locks stand in the .proto file, and are taken by the interceptors.
func NewServer(locks *lockmw.Locker, orders shopv1.OrdersServer) (*grpc.Server, error) {
	rules, err := grpclock.Annotated("shop.v1.Orders")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(locks, rules)),
		grpc.ChainStreamInterceptor(grpclock.StreamServerInterceptor(locks, rules)),
	)
	shopv1.RegisterOrdersServer(server, orders)
	return server, nil
}

// NewHandler returns the gateway to server, in the same process: a connection in memory, and the
// generated RegisterOrdersHandler. RegisterOrdersHandlerServer would call the service's methods
// directly, without interceptors, and so without locks. At the end, shut down the HTTP server of the handler, then
// call stop, then the Locker's Close. Stop waits for the calls that are at work, until its ctx ends.
func NewHandler(ctx context.Context, server *grpc.Server) (handler http.Handler, stop func(ctx context.Context) error, err error) {
	listener := bufconn.Listen(1 << 20)
	conn, err := grpc.NewClient("passthrough:///in-memory",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials())) // nothing leaves the process
	if err != nil {
		return nil, nil, err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop = func(ctx context.Context) error {
		ended := make(chan struct{})
		go func() {
			server.GracefulStop() // waits for every call, also for one that hangs
			close(ended)
		}()
		select {
		case <-ended:
			return errors.Join(conn.Close(), <-served)
		case <-ctx.Done():
			go server.Stop() // ends the contexts of the calls that are left. It may wait for their methods, too, so nothing here waits for it
			return errors.Join(ctx.Err(), conn.Close())
		}
	}
	mux := runtime.NewServeMux(runtime.WithErrorHandler(withRetryAfter), runtime.WithIncomingHeaderMatcher(headers))
	if err := RegisterOrdersHandler(ctx, mux, conn); err != nil {
		return nil, nil, errors.Join(err, stop(ctx))
	}
	return mux, stop, nil
}

// headers says which HTTP headers reach the metadata, and under which name. Without it, a key with {header.idempotency-key}
// would refuse every HTTP client, because the gateway drops that header.
func headers(name string) (string, bool) {
	if name == "Idempotency-Key" { // as net/http writes it; and others of which you make keys
		return name, true
	}
	return runtime.DefaultHeaderMatcher(name)
}

// withRetryAfter tells HTTP clients what gRPC clients are told by a RetryInfo.
func withRetryAfter(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			seconds := math.Ceil(retry.GetRetryDelay().AsDuration().Seconds())
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		}
	}
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, err)
}
