package grpclock_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestDoor(t *testing.T) { rpctest.Run(t, framework) }

func TestBrokenDoorIsNoticed(t *testing.T) { rpctest.RunBroken(t, framework) }

// framework is gRPC.
var framework = rpctest.Framework{
	Package: "grpclock",
	Key:     grpclock.Key,
	Constructors: map[string]func(*lockmw.Locker, grpclock.Rules, rpctest.Options){
		"UnaryServerInterceptor": func(l *lockmw.Locker, r grpclock.Rules, o rpctest.Options) {
			grpclock.UnaryServerInterceptor(l, r, options(o)...)
		},
		"StreamServerInterceptor": func(l *lockmw.Locker, r grpclock.Rules, o rpctest.Options) {
			grpclock.StreamServerInterceptor(l, r, options(o)...)
		},
	},
	Idempotent: func(l *lockmw.Locker, r grpclock.IdempotentRules, o rpctest.Options) {
		grpclock.Idempotent(l, r, options(o)...)
	},
	Serve:  func(r *testenv.Env, s rpctest.Service) grpc.ClientConnInterface { return serve(r, s) },
	Direct: direct,
	Retry:  rpctest.Pushback,
}

func options(o rpctest.Options) []grpclock.Option {
	return rpctest.OptionsOf(o, grpclock.WithErrorHandler, grpclock.WithSkipper, grpclock.WithValues, grpclock.WithLogger,
		grpclock.WithKeysOfEverybody, grpclock.WithOptionalKey, grpclock.WithKeep, grpclock.WithFingerprint)
}

func unaryOf(s rpctest.Service) grpc.UnaryServerInterceptor {
	return s.Fault.Unary(s.Locks, grpclock.UnaryServerInterceptor(s.Locks, s.Rules, options(s.Options)...))
}

// serve starts a server on loopback, and a client.
func serve(r *testenv.Env, s rpctest.Service) *grpc.ClientConn {
	r.Helper()
	stream := s.Fault.Stream(s.Locks, grpclock.StreamServerInterceptor(s.Locks, s.Rules, options(s.Options)...))
	var opts []grpc.ServerOption
	if s.Around.Unary != nil {
		opts = append(opts, grpc.ChainUnaryInterceptor(s.Around.Unary))
	}
	if s.Around.Stream != nil {
		opts = append(opts, grpc.ChainStreamInterceptor(s.Around.Stream))
	}
	if s.Once != nil {
		opts = append(opts, grpc.ChainUnaryInterceptor(s.Fault.Once(grpclock.Idempotent(s.Locks, s.Once, options(s.OnceOptions)...))))
	}
	opts = append(opts, grpc.ChainUnaryInterceptor(unaryOf(s)), grpc.ChainStreamInterceptor(stream), grpc.WaitForHandlers(true))
	server := grpc.NewServer(opts...)
	testpb.RegisterShopServer(server, s.Shop)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		r.CloseNow(s.Locks) // the server waits for handlers, and they may wait for a lock
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			r.Errorf("serve: %v", err)
		}
	})
	return conn
}

// direct calls the interceptor without a server.
func direct(ctx context.Context, s rpctest.Service) (a rpctest.Answer, err error) {
	ctx = grpc.NewContextWithServerTransportStream(ctx, rpctest.Transport{Trailer: &a.Trailer})
	_, err = unaryOf(s)(ctx, rpctest.Order(), &grpc.UnaryServerInfo{FullMethod: payMethod}, func(ctx context.Context, req any) (any, error) {
		return s.Shop.Pay(ctx, req.(*testpb.Order))
	})
	a.Status = status.Convert(err)
	return a, err
}

// The methods that are tested.
const (
	payMethod   = rpctest.PayMethod
	watchMethod = rpctest.WatchMethod
	chatMethod  = rpctest.ChatMethod
)

// id is the usual order's.
var id = rpctest.Order().GetOrderId()
