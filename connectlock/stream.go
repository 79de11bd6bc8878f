package connectlock

import (
	"context"
	"errors"
	"io"
	"reflect"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/lockmw"
)

// WrapStreamingHandler runs a handler of a stream under its lock.
func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		spec := conn.Spec()
		rule := i.door.Find(ctx, spec.Procedure)
		if rule == nil {
			return next(ctx, conn)
		}
		call := i.call(ctx, spec, conn.Peer(), conn.RequestHeader())
		return i.door.Stream(rule, rpcdoor.StreamCall{
			Call:       call.Call,
			OneMessage: spec.StreamType&connect.StreamTypeClient == 0,
			Inner:      ctx,
			Status:     func(refusal lockmw.Refusal) error { return errorOf(call.Method, refusal) },
			Refuse:     call.refuse,
			Unlocked:   func() error { return next(ctx, conn) },
			Locked: func(s *rpcdoor.Stream) error {
				return next(s.Context(), &lockedConn{StreamingHandlerConn: conn, locked: s})
			},
			End: kept(conn.ResponseTrailer()),
		})
	}
}

// A lockedConn is a stream that receives and sends under its lock.
type lockedConn struct {
	connect.StreamingHandlerConn
	locked *rpcdoor.Stream
	end    error // of a stream of one message: what came behind that
}

// Receive receives a message under the lock.
func (c *lockedConn) Receive(m any) error { return c.locked.Receive(m, c.receive) }

// Send sends a message under the lock.
func (c *lockedConn) Send(m any) error { return c.locked.Send(m, c.StreamingHandlerConn.Send) }

// receive receives a message. With the only one of a stream it waits for the end of what
// the client sends, which connect wants to see before the handler's own begins: with the
// lock taken, a client that does not end its request would hold it.
func (c *lockedConn) receive(m any) error {
	if c.Spec().StreamType&connect.StreamTypeClient != 0 {
		return c.StreamingHandlerConn.Receive(m)
	}
	if c.end != nil {
		return c.end
	}
	if err := c.StreamingHandlerConn.Receive(m); err != nil {
		return err
	}
	c.end = c.StreamingHandlerConn.Receive(another(m))
	switch {
	case c.end == nil:
		c.end = connect.NewError(connect.CodeUnimplemented, errors.New("unary request has multiple messages"))
		return c.end
	case !errors.Is(c.end, io.EOF):
		return c.end
	}
	return nil
}

// another returns an empty message of the type of m.
func another(m any) any {
	if message, ok := m.(proto.Message); ok {
		return message.ProtoReflect().New().Interface()
	}
	return reflect.New(reflect.TypeOf(m).Elem()).Interface()
}
