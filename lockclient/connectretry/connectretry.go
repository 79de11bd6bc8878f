// Package connectretry has the client's side of locks in ConnectRPC. If a service has refused a call because of a lock, and said that asking again
// helps, the package makes the call again. See package lockclient.
package connectretry

import (
	"context"
	"errors"
	"maps"
	"time"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/internal/connectdetail"
	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/lockclient"
)

// Interceptor returns an interceptor for the unary calls of clients, in each of the three protocols:
//
//	shopv1connect.NewOrdersClient(http.DefaultClient, "https://orders", connect.WithInterceptors(connectretry.Interceptor(lockclient.Budget{})))
//
// The caller is given what the last try has brought; if the budget is used up, that is the refusal. If the call's context ends in a pause, the caller
// is given an error with the code Canceled or DeadlineExceeded. Interceptors behind this one see each try. Streams and handlers are left alone.
func Interceptor(b lockclient.Budget) connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (answer connect.AnyResponse, err error) {
			if !r.Spec().IsClient {
				return next(ctx, r)
			}
			header := r.Header().Clone() // a try adds to it: cookies of a jar, for one
			ended := b.Ask(ctx, func() (string, time.Duration) {
				clear(r.Header())
				maps.Copy(r.Header(), header.Clone())
				answer, err = next(ctx, r)
				return refusalOf(r.Spec().Procedure, err)
			})
			switch {
			case errors.Is(ended, context.DeadlineExceeded):
				return nil, connect.NewError(connect.CodeDeadlineExceeded, ended)
			case ended != nil:
				return nil, connect.NewError(connect.CodeCanceled, ended)
			}
			return answer, err
		}
	})
}

// refusalOf returns the code of an error that is the refusal of a method, and when to ask again.
func refusalOf(method string, err error) (code string, after time.Duration) {
	refusal, ok := errors.AsType[*connect.Error](err)
	if !ok || refusal == nil {
		return "", 0
	}
	return rpcrefusal.In(connectdetail.Values(refusal)).Of(method)
}
