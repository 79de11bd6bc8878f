package connectlock_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestDoor(t *testing.T) { rpctest.Run(t, frameworks()...) }

func TestBrokenDoorIsNoticed(t *testing.T) { rpctest.RunBroken(t, frameworks()...) }

// A protocol is one of those that connect's handlers speak, as a client asks for it.
type protocol struct {
	name        string
	options     []connect.ClientOption
	contentType string // of a unary call
	enveloped   bool   // a message of a unary call has its length in front
	retry       func(rpctest.Answer, int64) error
}

var protocols = []protocol{
	{name: "Connect", contentType: "application/proto", retry: retryAfter},
	{name: "gRPC", options: []connect.ClientOption{connect.WithGRPC()}, contentType: "application/grpc", enveloped: true, retry: rpctest.Pushback},
	{name: "gRPC-Web", options: []connect.ClientOption{connect.WithGRPCWeb()}, contentType: "application/grpc-web", enveloped: true, retry: rpctest.Pushback},
}

// frameworks are ConnectRPC, by each protocol; in a short run by the first alone.
func frameworks() (fws []rpctest.Framework) {
	spoken := protocols
	if testing.Short() {
		spoken = spoken[:1]
	}
	for _, p := range spoken {
		fws = append(fws, rpctest.Framework{
			Name:    p.name,
			Package: "connectlock",
			Key:     connectlock.Key,
			Constructors: map[string]func(*lockmw.Locker, grpclock.Rules, rpctest.Options){
				"Interceptor": func(l *lockmw.Locker, r grpclock.Rules, o rpctest.Options) {
					connectlock.Interceptor(l, r, options(o)...)
				},
			},
			Idempotent: func(l *lockmw.Locker, r grpclock.IdempotentRules, o rpctest.Options) {
				connectlock.Idempotent(l, r, options(o)...)
			},
			Serve: func(r *testenv.Env, s rpctest.Service) grpc.ClientConnInterface {
				return remote{client: newClient(r), url: serve(r, s), options: p.options}
			},
			Direct: p.direct,
			Retry:  p.retry,
			Meaningless: map[string]string{
				"SentHeaderIsSent":                       "a unary handler of connect cannot send its header before its reply",
				"sends no header":                        "SentHeaderIsSent alone notices it",
				"gives a stream a new context each time": "connect hands a stream's context to its handler once",
			},
		})
	}
	return fws
}

// retryAfter is the Retry of clients of the Connect protocol.
func retryAfter(a rpctest.Answer, millis int64) error {
	want := ""
	if millis > 0 {
		want = strconv.FormatInt((millis+999)/1000, 10)
	}
	if got := a.Trailer.Get("retry-after"); fmt.Sprint(got) != "["+want+"]" {
		return fmt.Errorf("Retry-After is %q, want %s", got, want)
	}
	if got := a.Trailer.Get("grpc-retry-pushback-ms"); len(got) > 0 {
		return fmt.Errorf("the trailer of gRPC is %q, want none", got)
	}
	return nil
}

func options(o rpctest.Options) []connectlock.Option {
	if keep := o.Keep; keep != nil {
		o.Keep = func(ctx context.Context, procedure string, err error) bool {
			return keep(ctx, procedure, toStatus(err))
		}
	}
	if handle := o.ErrorHandler; handle != nil {
		o.ErrorHandler = func(ctx context.Context, procedure string, err error) error {
			return toConnect(handle(ctx, procedure, err))
		}
	}
	return rpctest.OptionsOf(o, connectlock.WithErrorHandler, connectlock.WithSkipper, connectlock.WithValues, connectlock.WithLogger,
		connectlock.WithKeysOfEverybody, connectlock.WithOptionalKey, connectlock.WithKeep, connectlock.WithFingerprint)
}

// interceptors are those of a service, with the door as the last.
func interceptors(s rpctest.Service) []connect.Interceptor {
	door := connectlock.Interceptor(s.Locks, s.Rules, options(s.Options)...)
	all := []connect.Interceptor{incoming{}, around{s.Around}}
	if s.Once != nil {
		all = append(all, onceDoor(s)...)
	}
	switch {
	case s.Fault == nil:
		return append(all, door)
	case s.Fault.Is("keeps the handler's metadata"):
		return append(all, keeper{}, door, kept{})
	case s.Fault.Is("forgets the trailer"):
		return append(all, forgetful{}, door)
	}
	sound := grpcOf(door)
	return append(all, around{rpctest.Around{Unary: s.Fault.Unary(s.Locks, sound.Unary), Stream: s.Fault.Stream(s.Locks, sound.Stream)}})
}

// onceDoor is a service's door that answers calls once.
func onceDoor(s rpctest.Service) []connect.Interceptor {
	door := connectlock.Idempotent(s.Locks, s.Once, options(s.OnceOptions)...)
	if s.Fault == nil {
		return []connect.Interceptor{door}
	}
	broken := around{rpctest.Around{Unary: s.Fault.Once(grpcOf(door).Unary)}}
	if s.Fault.Is("replays no header") {
		return []connect.Interceptor{headless{}, broken}
	}
	return []connect.Interceptor{broken}
}

// serve serves a shop on loopback, in all protocols, and returns its address.
func serve(r *testenv.Env, s rpctest.Service) (url string) {
	r.Helper()
	server := httptest.NewUnstartedServer(handlers(s.Shop, connect.WithInterceptors(interceptors(s)...)))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handlers that panic
	server.Start()
	r.Cleanup(func() {
		r.CloseNow(s.Locks) // the server waits for handlers, and they may wait for a lock
		server.Close()
	})
	return server.URL
}

// newClient returns a client for HTTP/2 without TLS.
func newClient(r *testenv.Env) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	r.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// direct serves one unary call without a connection.
func (p protocol) direct(ctx context.Context, s rpctest.Service) (a rpctest.Answer, err error) {
	body, err := proto.Marshal(rpctest.Order())
	if err != nil {
		return a, err
	}
	if p.enveloped {
		body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	}
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, rpctest.PayMethod, bytes.NewReader(body))
	request.Header.Set("Content-Type", p.contentType)
	var seen error
	all := append([]connect.Interceptor{watcher{err: &seen}}, interceptors(s)...)
	handlers(s.Shop, connect.WithInterceptors(all...)).ServeHTTP(httptest.NewRecorder(), request)
	a.Status = statusIn(seen)
	if coded, ok := errors.AsType[*connect.Error](seen); ok {
		a.Trailer = lower(coded.Meta())
	}
	return a, seen
}

// handlers are those of a shop.
func handlers(shop testpb.ShopServer, opts ...connect.HandlerOption) http.Handler {
	type (
		order   = testpb.Order
		receipt = testpb.Receipt
		stream  = grpc.GenericServerStream[order, receipt]
	)
	mux := http.NewServeMux()
	for name, method := range map[string]func(context.Context, *order) (*receipt, error){rpctest.PayMethod: shop.Pay, rpctest.RefundMethod: shop.Refund} {
		mux.Handle(name, connect.NewUnaryHandler(name, func(ctx context.Context, req *connect.Request[order]) (*connect.Response[receipt], error) {
			reply, err := method(withTransport(ctx), req.Msg)
			if err != nil {
				return nil, toConnect(err)
			}
			return connect.NewResponse(reply), nil
		}, opts...))
	}
	mux.Handle(rpctest.WatchMethod, connect.NewServerStreamHandler(rpctest.WatchMethod, func(ctx context.Context, req *connect.Request[order], s *connect.ServerStream[receipt]) error {
		return toConnect(shop.Watch(req.Msg, &stream{ServerStream: serverStream{withTransport(ctx), s.Conn()}}))
	}, opts...))
	mux.Handle(rpctest.CollectMethod, connect.NewClientStreamHandler(rpctest.CollectMethod, func(ctx context.Context, s *connect.ClientStream[order]) (*connect.Response[receipt], error) {
		one := &oneReply{serverStream{withTransport(ctx), s.Conn()}, new(receipt)}
		if err := shop.Collect(&stream{ServerStream: one}); err != nil {
			return nil, toConnect(err)
		}
		return connect.NewResponse(one.reply), nil
	}, opts...))
	mux.Handle(rpctest.ChatMethod, connect.NewBidiStreamHandler(rpctest.ChatMethod, func(ctx context.Context, s *connect.BidiStream[order, receipt]) error {
		return toConnect(shop.Chat(&stream{ServerStream: serverStream{withTransport(ctx), s.Conn()}}))
	}, opts...))
	return mux
}
