package connectlock_test

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// passes is an interceptor that does nothing, for others to embed.
type passes struct{}

func (passes) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

func (passes) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (passes) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// incoming leaves the headers of a call in its context, as authentication leaves what it
// knows.
type incoming struct{ passes }

func (incoming) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		return next(metadata.NewIncomingContext(ctx, mdOf(req.Header())), req)
	}
}

func (incoming) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(metadata.NewIncomingContext(ctx, mdOf(conn.RequestHeader())), conn)
	}
}

// A transport sets what a response has beside its message, for grpc.SetHeader and the like.
type transport struct{ connect.CallInfo }

func (transport) Method() string                    { return "" }
func (t transport) SetHeader(md metadata.MD) error  { add(t.ResponseHeader(), md); return nil }
func (transport) SendHeader(metadata.MD) error      { return errors.New("connect cannot do that") }
func (t transport) SetTrailer(md metadata.MD) error { add(t.ResponseTrailer(), md); return nil }

// withTransport returns a context in which grpc.SetHeader and the like find the call.
func withTransport(ctx context.Context) context.Context {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return ctx
	}
	return grpc.NewContextWithServerTransportStream(ctx, transport{info})
}

// A watcher notes the error of a unary call.
type watcher struct {
	passes
	err *error
}

func (w watcher) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, req)
		*w.err = err
		return response, err
	}
}

// forgetful is around a door that does not tell when to come back.
type forgetful struct{ passes }

func (forgetful) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, req)
		if e, ok := errors.AsType[*connect.Error](err); ok {
			clear(e.Meta())
		}
		return response, err
	}
}

// headless is around a door that forgets what stands beside the reply.
type headless struct{ passes }

func (headless) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, req)
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			clear(info.ResponseHeader())
			clear(info.ResponseTrailer())
		}
		return response, err
	}
}

// A keeper is around a door that keeps what the handler has set, with kept inside of it.
type keeper struct{ passes }

// kept notes what the handler has set.
type kept struct{ passes }

type keptKey struct{}

func (keeper) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		var set http.Header
		response, err := next(context.WithValue(ctx, keptKey{}, &set), req)
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			maps.Copy(info.ResponseTrailer(), set)
		}
		return response, err
	}
}

func (keeper) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		var set http.Header
		err := next(context.WithValue(ctx, keptKey{}, &set), conn)
		maps.Copy(conn.ResponseTrailer(), set)
		return err
	}
}

func (kept) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, req)
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			*ctx.Value(keptKey{}).(*http.Header) = info.ResponseTrailer().Clone()
		}
		return response, err
	}
}

func (kept) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		err := next(ctx, conn)
		*ctx.Value(keptKey{}).(*http.Header) = conn.ResponseTrailer().Clone()
		return err
	}
}
