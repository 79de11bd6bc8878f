package lockclient_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockclient"
	"github.com/lockmw/kit/lockclient/connectretry"
	"github.com/lockmw/kit/lockclient/grpcretry"
)

// What the doors of RPC have of a service: the paths of the cases are two doors around one method.

// order is the message for a path, such as /locked/42.
func order(path string) *testpb.Order {
	_, id, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return &testpb.Order{OrderId: id}
}

// lockRules are those of /locked.
func (s *service) lockRules() grpclock.Rules {
	return grpclock.Rules{rpctest.PayMethod: {Key: keyfunc.MustParse("{body.order_id|int}"), Policy: s.policy}}
}

// onceRules are those of /once.
func (s *service) onceRules() grpclock.IdempotentRules {
	return grpclock.IdempotentRules{rpctest.PayMethod: {Key: onceKey, Flight: s.flight()}}
}

// pay is what both methods do.
func (s *service) pay() *testpb.Receipt {
	s.ran++
	if s.work != nil {
		s.work(httptest.NewRecorder(), nil)
	}
	return &testpb.Receipt{Text: "done"}
}

// overGRPC calls the method through grpclock, without a network.
func overGRPC(s *service, b lockclient.Budget, path string) (g got) {
	door := grpclock.UnaryServerInterceptor(s.locks, s.lockRules())
	if path == "/once" {
		door = grpclock.Idempotent(s.locks, s.onceRules(), grpclock.WithKeysOfEverybody())
	}
	serve := func(ctx context.Context, method string, req, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) (err error) {
		defer func() {
			if recover() != nil {
				err = status.Error(grpccodes.Unavailable, "the process has died")
			}
		}()
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", idempotencyKey))
		_, err = door(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) { return s.pay(), nil })
		return err
	}
	err := grpcretry.UnaryInterceptor(b)(s.Context(), rpctest.PayMethod, order(path), new(testpb.Receipt), nil, serve)
	return told(err, grpclock.CodeOf(err))
}

// overConnect calls the method through connectlock, in the protocol of Connect.
func overConnect(s *service, b lockclient.Budget, path string) (g got) {
	door := connectlock.Interceptor(s.locks, s.lockRules())
	if path == "/once" {
		door = connectlock.Idempotent(s.locks, s.onceRules(), connectlock.WithKeysOfEverybody())
	}
	mux := http.NewServeMux()
	mux.Handle(rpctest.PayMethod, connect.NewUnaryHandler(rpctest.PayMethod, func(context.Context, *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		return connect.NewResponse(s.pay()), nil
	}, connect.WithInterceptors(door)))
	client := connect.NewClient[testpb.Order, testpb.Receipt](&http.Client{Transport: direct{mux}}, "http://shop.test"+rpctest.PayMethod,
		connect.WithInterceptors(connectretry.Interceptor(b)))
	r := connect.NewRequest(order(path))
	r.Header().Set("Idempotency-Key", idempotencyKey)
	_, err := client.CallUnary(s.Context(), r)
	return told(err, connectlock.CodeOf(err))
}

// told is what a client of RPC was told, in the words of the cases. Which status goes with which code the suites of the doors know.
func told(err error, code string) (g got) {
	switch g.code = code; {
	case err == nil:
		g.status = http.StatusOK
	case code == "":
		g.err = err
	}
	return g
}
