package grpclock

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/internal/entry"
	"github.com/lockmw/kit/lockmw"
)

// StreamServerInterceptor returns an interceptor that runs streams under the
// locks that rules say. It panics like UnaryServerInterceptor, which calls its
// key functions at start-up, too.
//
// A stream whose key is made from metadata takes its lock before the handler
// runs. One whose key is made from the message takes it when the handler
// receives the first one, as part of RecvMsg. In a method that the client sends
// one message to, generated code does that before the handler's own begins.
// Otherwise what a handler does before it first receives is not under the lock.
// A stream that ends without a message has no key and is refused.
func StreamServerInterceptor(l *lockmw.Locker, rules Rules, opts ...Option) grpc.StreamServerInterceptor {
	return newDoor(streamConstructor, l, rules, opts).stream
}

func (d *door) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	d.first.Do(d.checkOther)
	ctx, method := ss.Context(), info.FullMethod
	l := d.find(method)
	if l == nil || d.skips(ctx, method) {
		return handler(srv, ss)
	}
	if l.late {
		return d.runLate(srv, ss, method, l, handler)
	}
	keys, early, err := d.keys(ctx, method, l, nil)
	if early { // whatever it made of that
		return d.runLate(srv, ss, method, l, handler)
	}
	lease, err := d.acquire(ctx, l, keys, err)
	if err != nil {
		return d.refuse(ctx, method, err, ss.SetTrailer)
	}
	if lease == nil {
		return handler(srv, ss)
	}
	err, lost := runLocked(srv, ss, lease, handler)
	if lost != nil {
		return d.refuse(ctx, method, entry.WithLoss(err, lost), ss.SetTrailer)
	}
	return err
}

// runLocked runs the handler of a stream under its lock, and releases it, also
// when the handler panics or calls runtime.Goexit. It returns the handler's
// error, and one that says that the lock was lost.
func runLocked(srv any, ss grpc.ServerStream, lease *lockmw.Lease, handler grpc.StreamHandler) (err, lost error) {
	ctx, held := holdTrailer(lease.Context(), ss)
	defer func() {
		lost = entry.Release(ss.Context(), lease)
		held.end(lost != nil)
	}()
	return handler(srv, &lockedStream{ss, lease, ctx, held}), nil
}

// A lockedStream is a stream whose context is the lease's.
type lockedStream struct {
	grpc.ServerStream
	lease *lockmw.Lease
	ctx   context.Context
	held  *heldMetadata
}

// Context returns the lease's context.
func (s *lockedStream) Context() context.Context { return s.ctx }

// SetTrailer holds the trailer until it is known whether the lock was lost.
func (s *lockedStream) SetTrailer(md metadata.MD) { _ = s.held.SetTrailer(md) }

// RecvMsg receives a message, see over.
func (s *lockedStream) RecvMsg(m any) error {
	if err := over(s.lease, s.ServerStream); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return over(s.lease, s.ServerStream)
}

// SendMsg sends a message, see over.
func (s *lockedStream) SendMsg(m any) error {
	if err := over(s.lease, s.ServerStream); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// over returns an error when the lease has ended: a stream receives and sends
// no longer than its context lives, and this is its context. Handlers of
// streams look at the errors of these, rather than at their context.
func over(lease *lockmw.Lease, ss grpc.ServerStream) error {
	cause := context.Cause(lease.Context())
	switch {
	case cause == nil, ss.Context().Err() != nil: // of its own end the stream knows itself
		return nil //nolint:nilerr // the stream returns it
	case errors.Is(cause, lockmw.ErrLost):
		return statusOf(entry.Refusal(lockmw.ErrLost))
	case errors.Is(cause, lockmw.ErrMaxHold):
		return status.Error(codes.DeadlineExceeded, "The stream had exclusive access for as long as it may.")
	}
	return status.FromContextError(context.Canceled).Err() // it was released: the handler has returned
}
