package grpclock

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/lockmw"
)

// UnaryServerInterceptor returns an interceptor that runs unary methods under the locks
// that rules name. For a method without a rule it does two look-ups in a map.
//
// For each call, WithSkipper's function is asked first, and then the key function. If the
// key function returns keyfunc.Skip, the method runs without a lock. If it fails, Redis
// is not asked. The call then fails with InvalidArgument, or with Internal for a mistake
// of the program (keyfunc.ErrMisuse).
//
// UnaryServerInterceptor panics if l, rules or an option is nil, and if a rule cannot
// work:
//
//   - its name is malformed, or its service has no such method;
//   - its Key is nil;
//   - its Key reads what no call or no message of the method has, or a value without
//     WithValues;
//   - its Policy is invalid.
//
// To find out what a Key reads, it is called once for each method with a made-up request.
// Every header, value and field of that request is "00000000000000000000000000000000".
// The Key may fail or panic then.
func UnaryServerInterceptor(l *lockmw.Locker, rules Rules, opts ...Option) grpc.UnaryServerInterceptor {
	return newInterceptor(unaryConstructor, l, rules, opts).unary
}

func (i *interceptor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	i.first.Do(i.checkOther)
	rule := i.Find(ctx, info.FullMethod)
	if rule == nil {
		return handler(ctx, req)
	}
	lease, err := i.Enter(rpcdoor.Call{Context: ctx, Method: info.FullMethod, Headers: incoming{}}, rule, req)
	if err != nil {
		return nil, i.refuseUnary(ctx, info.FullMethod, err)
	}
	if lease == nil {
		return handler(ctx, req)
	}
	inner, held := holdMetadata(lease.Context())
	reply, err, lost := rpcdoor.Under(ctx, lease, held.end, func() (any, error) { return handler(inner, req) })
	if lost != nil {
		return nil, i.refuseUnary(ctx, info.FullMethod, door.WithLoss(err, lost))
	}
	return reply, err
}

func (i *interceptor) refuseUnary(ctx context.Context, method string, err error) error {
	return i.refuse(ctx, method, err, func(trailer metadata.MD) {
		_ = grpc.SetTrailer(ctx, trailer) // fails outside of a server, where nobody retries
	})
}
