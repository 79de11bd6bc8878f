// Package grpcretry has the client's side of locks in gRPC. If a service has refused a call because of a lock, and said that asking again helps, the
// package makes the call again. See package lockclient.
package grpcretry

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/lockclient"
)

// UnaryInterceptor returns an interceptor for unary calls:
//
//	grpc.NewClient("dns:///orders:50051", grpc.WithChainUnaryInterceptor(grpcretry.UnaryInterceptor(lockclient.Budget{})))
//
// The caller is given what the last try has brought; if the budget is used up, that is the refusal. If the call's context ends in a pause, the caller
// is given a status with the code Canceled or DeadlineExceeded. Interceptors behind this one see each try. So do call options that are about one
// call, such as grpc.Trailer: the last try counts. If a service config has a retryPolicy for the codes of refusals (Aborted, Unavailable,
// ResourceExhausted), gRPC retries within each of these tries. So use only one of the two.
func UnaryInterceptor(b lockclient.Budget) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		var err error
		ended := b.Ask(ctx, func() (string, time.Duration) {
			err = invoke(ctx, method, req, reply, conn, opts...)
			return refusalOf(method, err)
		})
		if ended != nil {
			return status.FromContextError(ended).Err()
		}
		return err
	}
}

// refusalOf returns the code of an error that is the refusal of a method, and when to ask again.
func refusalOf(method string, err error) (code string, after time.Duration) {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return "", 0
	}
	return rpcrefusal.In(slices.Values(s.Details())).Of(method)
}
