package connectlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/internal/test/rpctest/testpb"
)

// A remote is a client of connect in the words of gRPC.
type remote struct {
	client  *http.Client
	url     string
	options []connect.ClientOption
}

var _ grpc.ClientConnInterface = remote{}

// Invoke calls a unary method.
func (r remote) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) (err error) {
	var header, trailer http.Header
	switch message := args.(type) {
	case *testpb.Order:
		var response *connect.Response[testpb.Receipt]
		if response, err = call[testpb.Order, testpb.Receipt](ctx, r, method, message); err == nil {
			proto.Merge(reply.(proto.Message), response.Msg)
			header, trailer = response.Header(), response.Trailer()
		}
	case []byte:
		w := wire(message)
		_, err = call[wire, wire](ctx, r, method, &w, connect.WithCodec(wireCodec{}))
	default:
		return fmt.Errorf("a message is a %T", args)
	}
	if e, ok := errors.AsType[*connect.Error](err); ok { // which has both in one
		header, trailer = e.Meta(), e.Meta()
	}
	for _, opt := range opts {
		switch opt := opt.(type) {
		case grpc.HeaderCallOption:
			*opt.HeaderAddr = lower(header)
		case grpc.TrailerCallOption:
			*opt.TrailerAddr = lower(trailer)
		}
	}
	return toStatus(err)
}

// call calls a unary method.
func call[Req, Res any](ctx context.Context, r remote, method string, message *Req, opts ...connect.ClientOption) (*connect.Response[Res], error) {
	client := connect.NewClient[Req, Res](r.client, r.url+method, append(opts, r.options...)...)
	request := connect.NewRequest(message)
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		add(request.Header(), md)
	}
	return client.CallUnary(ctx, request)
}

// wire is a message that is in bytes already.
type wire []byte

// A wireCodec sends and receives such messages.
type wireCodec struct{}

func (wireCodec) Name() string { return "proto" }

func (wireCodec) Marshal(v any) ([]byte, error) { return *v.(*wire), nil }

func (wireCodec) Unmarshal(data []byte, v any) error {
	if status, ok := v.(proto.Message); ok { // of gRPC
		return proto.Unmarshal(data, status)
	}
	*v.(*wire) = append(wire(nil), data...)
	return nil
}

// NewStream opens a stream, and has it begin before its first message.
func (r remote) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	client := connect.NewClient[testpb.Order, testpb.Receipt](r.client, r.url+method, r.options...)
	s := &clientStream{ctx: ctx, stream: client.CallBidiStream(ctx)}
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		add(s.stream.RequestHeader(), md)
	}
	return s, s.stream.Send(nil)
}

// A clientStream is a client's stream of connect in the words of gRPC.
type clientStream struct {
	ctx     context.Context
	stream  *connect.BidiStreamForClient[testpb.Order, testpb.Receipt]
	trailer metadata.MD
}

func (s *clientStream) Context() context.Context     { return s.ctx }
func (s *clientStream) CloseSend() error             { return s.stream.CloseRequest() }
func (s *clientStream) Header() (metadata.MD, error) { return lower(s.stream.ResponseHeader()), nil }
func (s *clientStream) Trailer() metadata.MD         { return s.trailer }

func (s *clientStream) SendMsg(m any) error {
	err := s.stream.Send(m.(*testpb.Order))
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return toStatus(err)
}

func (s *clientStream) RecvMsg(m any) error {
	reply, err := s.stream.Receive()
	if err == nil {
		proto.Merge(m.(proto.Message), reply)
		return nil
	}
	if errors.Is(err, io.EOF) {
		s.trailer = lower(s.stream.ResponseTrailer())
		return io.EOF
	}
	if e, ok := errors.AsType[*connect.Error](err); ok {
		s.trailer = lower(e.Meta())
	}
	return toStatus(err)
}
