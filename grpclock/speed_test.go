package grpclock_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// skipping derives a key and then asks for no lock.
func skipping(key keyfunc.Func) keyfunc.Func {
	return func(r keyfunc.Request) (string, error) {
		if made, err := key(r); err != nil {
			return made, err
		}
		return "", keyfunc.Skip
	}
}

func TestKeysCostFewAllocations(t *testing.T) {
	message := &testpb.Order{OrderId: id, I64: 1 << 60, Customer: &testpb.Customer{Id: "ann"}}
	for _, tc := range []struct {
		key  keyfunc.Func
		most float64 // the view, the key, and the texts that are not in the message
	}{
		{keyfunc.MustParse("order:{body.order_id}"), 2},
		{keyfunc.MustParse("order:{body.order_id}:{body.customer.id}:{body.express}"), 2},
		{keyfunc.MustParse("order:{body.i64}"), 3},
		{keyfunc.MustParse("order:{header.x-user}"), 3},
	} {
		interceptor := grpclock.UnaryServerInterceptor(newLocker(t), grpclock.Rules{payMethod: {Key: skipping(tc.key)}})
		if n := testing.AllocsPerRun(100, invocation(t, interceptor, message)); n > tc.most {
			t.Errorf("%v allocations, want at most %v", n, tc.most)
		}
	}
}

// invocation returns a function that calls an interceptor as a server does.
func invocation(tb testing.TB, interceptor grpc.UnaryServerInterceptor, message any) func() {
	tb.Helper()
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-user", "ann"))
	info := &grpc.UnaryServerInfo{FullMethod: payMethod}
	handler := func(context.Context, any) (any, error) { return message, nil }
	return func() {
		if _, err := interceptor(ctx, message, info, handler); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkDoor measures what the door costs beside its lock, with a key of
// three values. "bare" is an interceptor that does nothing; "none" is a method
// without a rule; "key" goes through the door until the key is there, and then
// on without a lock; "late" is the same with fields that are looked for in the
// call; "door" is the whole way, with a lock in a real Redis, and "hand" is a
// handler that takes the same lock itself: the difference is the door's.
func BenchmarkDoor(b *testing.B) {
	e := testenv.New(b, redistest.Shared(b))
	key := keyfunc.MustParse("order:{body.order_id}:{body.customer.id}:{header.x-user}")
	made := "order:" + id + ":ann:ann"
	late := func(r keyfunc.Request) (string, error) {
		if _, called := metadata.FromIncomingContext(r.Context()); !called {
			return "", keyfunc.Skip
		}
		return skipping(key)(r)
	}
	policy := lockmw.Policy{Prefix: "bench:"}
	door := func(method string, key keyfunc.Func) grpc.UnaryServerInterceptor {
		return grpclock.UnaryServerInterceptor(e.Locks, grpclock.Rules{method: {Key: key, Policy: policy}})
	}
	message := &testpb.Order{OrderId: id, Customer: &testpb.Customer{Id: "ann"}}
	for _, bc := range []struct {
		name        string
		interceptor grpc.UnaryServerInterceptor
	}{
		{"bare", func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return handler(ctx, req)
		}},
		{"none", door(watchMethod, key)},
		{"key", door(payMethod, skipping(key))},
		{"late", door(payMethod, late)},
		{"hand", func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			_, lease, err := e.Locks.Acquire(ctx, made, policy)
			if err != nil {
				return nil, err
			}
			defer lease.Release(ctx)
			return handler(lease.Context(), req)
		}},
		{"door", door(payMethod, key)},
	} {
		b.Run(bc.name, func(b *testing.B) {
			invoke := invocation(b, bc.interceptor, message)
			b.ReportAllocs()
			for b.Loop() {
				invoke()
			}
		})
	}
}
