package grpclock_test

import (
	"context"
	"net"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The package comment says that grpc.UnaryInterceptor runs before the chain, in whatever
// order the options are given: a lock in it would come before authorisation.
func TestUnaryInterceptorRunsBeforeTheChain(t *testing.T) {
	var order []string
	note := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			order = append(order, name)
			return handler(ctx, req)
		}
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(note("chain 1"), note("chain 2")), grpc.UnaryInterceptor(note("single")))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "elsewhere.Order", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Pay",
		Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/elsewhere.Order/Pay"}, func(context.Context, any) (any, error) { return in, nil })
		},
	}}}, nil)
	listener, served := bufconn.Listen(1<<16), make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(t.Context(), "/elsewhere.Order/Pay", new(emptypb.Empty), new(emptypb.Empty)); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if want := []string{"single", "chain 1", "chain 2"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}
