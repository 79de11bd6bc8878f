package connectlock_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
)

// A coded error is one of connect in the words of gRPC.
type coded struct {
	error
	status *status.Status
}

func (c coded) GRPCStatus() *status.Status { return c.status }
func (c coded) Unwrap() error              { return c.error }

// toStatus gives an error of connect a status of gRPC.
func toStatus(err error) error {
	if _, ok := errors.AsType[*connect.Error](err); !ok {
		return err
	}
	return coded{err, statusIn(err)}
}

// statusIn returns the status of gRPC that an error of connect is.
func statusIn(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return status.New(codes.Unknown, err.Error())
	}
	s := status.New(codes.Code(e.Code()), e.Message())
	for _, detail := range e.Details() {
		value, err := detail.Value()
		if err != nil {
			return status.New(codes.DataLoss, err.Error())
		}
		if s, err = s.WithDetails(protoadapt.MessageV1Of(value)); err != nil {
			return status.New(codes.DataLoss, err.Error())
		}
	}
	return s
}

// A described error has the message of a status as its text.
type described struct {
	error
	text string
}

func (d described) Error() string { return d.text }
func (d described) Unwrap() error { return d.error }

// toConnect makes an error of connect of one that has a status of gRPC.
func toConnect(err error) error {
	if c, ok := errors.AsType[coded](err); ok {
		return c.error
	}
	var has interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &has) {
		return err
	}
	s := has.GRPCStatus()
	e := connect.NewError(connect.Code(s.Code()), described{err, s.Message()})
	for _, detail := range s.Details() {
		if encoded, err := connect.NewErrorDetail(detail.(proto.Message)); err == nil {
			e.AddDetail(encoded)
		}
	}
	return e
}

// A serverStream is a stream of connect in the words of gRPC.
type serverStream struct {
	ctx  context.Context
	conn connect.StreamingHandlerConn
}

func (s serverStream) Context() context.Context       { return s.ctx }
func (s serverStream) SetHeader(md metadata.MD) error { add(s.conn.ResponseHeader(), md); return nil }
func (s serverStream) SendHeader(metadata.MD) error   { return errors.New("connect cannot do that") }
func (s serverStream) SetTrailer(md metadata.MD)      { add(s.conn.ResponseTrailer(), md) }
func (s serverStream) SendMsg(m any) error            { return toStatus(s.conn.Send(m)) }

func (s serverStream) RecvMsg(m any) error {
	err := s.conn.Receive(m)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return toStatus(err)
}

// A oneReply is a stream whose one reply connect sends when the handler has returned.
type oneReply struct {
	serverStream
	reply *testpb.Receipt
}

func (s *oneReply) SendMsg(m any) error {
	s.reply = m.(*testpb.Receipt)
	return nil
}

// A handlerConn is a stream of connect that sends and receives by one of gRPC.
type handlerConn struct {
	connect.StreamingHandlerConn
	stream grpc.ServerStream
}

func (c handlerConn) Receive(m any) error { return toConnect(c.stream.RecvMsg(m)) }
func (c handlerConn) Send(m any) error    { return toConnect(c.stream.SendMsg(m)) }

// An around interceptor is one of gRPC, in connect. That gets the request of connect as
// the server, so that grpcOf finds it.
type around struct{ rpctest.Around }

func (a around) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	if a.Unary == nil {
		return next
	}
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		var made connect.AnyResponse
		info := &grpc.UnaryServerInfo{Server: req, FullMethod: req.Spec().Procedure}
		reply, err := a.Unary(withTransport(ctx), req.Any(), info, func(ctx context.Context, _ any) (any, error) {
			response, err := next(ctx, req)
			if err != nil {
				return nil, toStatus(err)
			}
			made = response
			return response.Any(), nil
		})
		switch {
		case err != nil:
			return nil, toConnect(err)
		case made != nil && made.Any() == reply:
			return made, nil
		}
		return connect.NewResponse(reply.(*testpb.Receipt)), nil
	}
}

func (a around) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (a around) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	if a.Stream == nil {
		return next
	}
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		info := &grpc.StreamServerInfo{FullMethod: conn.Spec().Procedure}
		return toConnect(a.Stream(conn, serverStream{ctx, conn}, info, func(_ any, ss grpc.ServerStream) error {
			return toStatus(next(ss.Context(), handlerConn{conn, ss}))
		}))
	}
}

// A renamed request says that it is one to another procedure.
type renamed struct {
	connect.AnyRequest
	procedure string
}

func (r renamed) Spec() connect.Spec {
	spec := r.AnyRequest.Spec()
	spec.Procedure = r.procedure
	return spec
}

// grpcOf returns an interceptor of connect in the words of gRPC, for an around.
func grpcOf(door connect.Interceptor) rpctest.Around {
	return rpctest.Around{
		Unary: func(ctx context.Context, _ any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			request := renamed{info.Server.(connect.AnyRequest), info.FullMethod}
			response, err := door.WrapUnary(func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				reply, err := handler(ctx, req.Any())
				if err != nil {
					return nil, toConnect(err)
				}
				return connect.NewResponse(reply.(*testpb.Receipt)), nil
			})(ctx, request)
			if err != nil {
				return nil, toStatus(err)
			}
			if call, ok := connect.CallInfoForHandlerContext(ctx); ok { // gRPC has only one place for them
				addAll(call.ResponseHeader(), response.Header())
				addAll(call.ResponseTrailer(), response.Trailer())
			}
			return response.Any(), nil
		},
		Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			conn := handlerConn{srv.(connect.StreamingHandlerConn), ss}
			return toStatus(door.WrapStreamingHandler(func(ctx context.Context, conn connect.StreamingHandlerConn) error {
				return toConnect(handler(srv, serverStream{ctx, conn}))
			})(ss.Context(), conn))
		},
	}
}

// addAll adds headers to others.
func addAll(to, from http.Header) {
	for name, values := range from {
		to[name] = append(to[name], values...)
	}
}

// mdOf returns headers as the metadata of gRPC.
func mdOf(h http.Header) metadata.MD {
	md := lower(h)
	for name, values := range md {
		if !strings.HasSuffix(name, "-bin") {
			continue
		}
		for i, value := range values {
			if decoded, err := connect.DecodeBinaryHeader(value); err == nil {
				values[i] = string(decoded)
			}
		}
	}
	return md
}

// lower returns headers by their names in lower case.
func lower(h http.Header) metadata.MD {
	md := make(metadata.MD)
	for name, values := range h {
		md.Append(name, values...)
	}
	return md
}

// add adds metadata of gRPC to headers.
func add(h http.Header, md metadata.MD) {
	for name, values := range md {
		for _, value := range values {
			if strings.HasSuffix(name, "-bin") {
				value = connect.EncodeBinaryHeader([]byte(value))
			}
			h.Add(name, value)
		}
	}
}
