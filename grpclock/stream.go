package grpclock

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/lockmw"
)

// StreamServerInterceptor returns an interceptor that runs streams under the locks that
// rules name. It panics like UnaryServerInterceptor, and calls key functions at start-up
// in the same way.
//
// When the lock is taken depends on the stream:
//
//   - If the key is made from metadata, the lock is taken before the handler runs.
//   - If the key is made from the message, the lock is taken when the handler receives
//     the first message, as part of RecvMsg. What the handler does before that is not
//     under the lock. If such a stream ends without a message, it has no key and is
//     refused.
//   - If the client sends one message only, the lock is taken when that message is
//     received, whatever the key is made from. Generated code receives it before the
//     handler's own code begins, and a client that sends nothing holds no lock.
func StreamServerInterceptor(l *lockmw.Locker, rules Rules, opts ...Option) grpc.StreamServerInterceptor {
	return newInterceptor(streamConstructor, l, rules, opts).stream
}

func (i *interceptor) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	i.first.Do(i.checkOther)
	outer, method := ss.Context(), info.FullMethod
	rule := i.Find(outer, method)
	if rule == nil {
		return handler(srv, ss)
	}
	inner, held := holdTrailer(outer, ss)
	return i.Stream(rule, rpcdoor.StreamCall{
		Call:       rpcdoor.Call{Context: outer, Method: method, Headers: incoming{}},
		OneMessage: !info.IsClientStream,
		Inner:      inner,
		Status:     func(refusal lockmw.Refusal) error { return statusOf(method, refusal, nil) },
		Refuse:     func(err error) error { return i.refuse(outer, method, err, ss.SetTrailer) },
		Unlocked:   func() error { return handler(srv, ss) },
		Locked:     func(s *rpcdoor.Stream) error { return handler(srv, &lockedStream{ss, s, held}) },
		End:        held.end,
	})
}

// A lockedStream is a stream that receives and sends under its lock.
type lockedStream struct {
	grpc.ServerStream
	locked *rpcdoor.Stream
	held   *heldMetadata
}

// Context returns the context that ends with the lease.
func (s *lockedStream) Context() context.Context { return s.locked.Context() }

// SetTrailer holds the trailer until it is known whether the lock was lost.
func (s *lockedStream) SetTrailer(md metadata.MD) { _ = s.held.SetTrailer(md) }

// RecvMsg receives a message under the lock.
func (s *lockedStream) RecvMsg(m any) error { return s.locked.Receive(m, s.ServerStream.RecvMsg) }

// SendMsg sends a message under the lock.
func (s *lockedStream) SendMsg(m any) error { return s.locked.Send(m, s.ServerStream.SendMsg) }
