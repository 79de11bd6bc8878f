package grpclock

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/internal/entry"
	"github.com/lockmw/kit/lockmw"
)

// UnaryServerInterceptor returns an interceptor that runs unary methods under
// the locks that rules say; a method without a rule costs it two look-ups in a
// map.
//
// The key function is called before anything else. If it returns keyfunc.Skip
// the method runs without a lock; if it fails, the call fails with
// InvalidArgument, or with Internal for a mistake of the program
// (keyfunc.ErrMisuse), and Redis is not asked.
//
// It panics if l, rules or an option is nil, and if a rule cannot work: its
// name is malformed, its service has no such method, its Key is nil, reads what
// no call or no message of the method has, or a value without WithValues, or its
// Policy is invalid. To find out what a Key reads, it is called once for each method
// with a made-up request, whose every header, value and field is
// "00000000000000000000000000000000"; it may fail or panic then.
func UnaryServerInterceptor(l *lockmw.Locker, rules Rules, opts ...Option) grpc.UnaryServerInterceptor {
	return newDoor(unaryConstructor, l, rules, opts).unary
}

func (d *door) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	d.first.Do(d.checkOther)
	l := d.find(info.FullMethod)
	if l == nil || d.skips(ctx, info.FullMethod) {
		return handler(ctx, req)
	}
	keys, _, err := d.keys(ctx, info.FullMethod, l, req)
	lease, err := d.acquire(ctx, l, keys, err)
	if err != nil {
		return nil, d.refuseUnary(ctx, info.FullMethod, err)
	}
	if lease == nil {
		return handler(ctx, req)
	}
	reply, err, lost := run(ctx, req, lease, handler)
	if lost != nil {
		return nil, d.refuseUnary(ctx, info.FullMethod, entry.WithLoss(err, lost))
	}
	return reply, err
}

// run runs the handler and releases the lock, also when it panics or calls
// runtime.Goexit. It returns what the handler does, and an error that says that
// the lock was lost.
func run(ctx context.Context, req any, lease *lockmw.Lease, handler grpc.UnaryHandler) (reply any, err, lost error) {
	inner, held := holdMetadata(lease.Context())
	defer func() {
		lost = entry.Release(ctx, lease)
		held.end(lost != nil)
	}()
	reply, err = handler(inner, req)
	return reply, err, nil
}

func (d *door) refuseUnary(ctx context.Context, method string, err error) error {
	return d.refuse(ctx, method, err, func(trailer metadata.MD) {
		_ = grpc.SetTrailer(ctx, trailer) // fails outside of a server, where nobody retries
	})
}
