package grpclock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// payOnce answers the unary method once for an order of a user.
func payOnce() grpclock.IdempotentRules {
	return grpclock.IdempotentRules{payMethod: {Key: keyfunc.MustParse("{body.customer.id}:{body.order_id}"), Flight: lockmw.Flight{Retain: time.Minute}}}
}

func ordered() *testpb.Order {
	return &testpb.Order{OrderId: id, Customer: &testpb.Customer{Id: "ann"}}
}

// A headerStream is a stream without a connection that notes its header.
type headerStream struct {
	rpctest.Transport
	header *metadata.MD
}

func newHeaderStream() headerStream {
	return headerStream{rpctest.Transport{Trailer: new(metadata.MD)}, new(metadata.MD)}
}

func (s headerStream) SetHeader(md metadata.MD) error {
	*s.header = metadata.Join(*s.header, md)
	return nil
}

func (s headerStream) SendHeader(md metadata.MD) error { return s.SetHeader(md) }

// A header that the handler has sent itself is as much of its answer as one that it has set.
func TestHeaderThatWasSentIsGivenAgain(t *testing.T) {
	unary := grpclock.Idempotent(newLocker(t), payOnce())
	for _, replayed := range [][]string{nil, {"true"}} {
		stream := newHeaderStream()
		_, err := unary(grpc.NewContextWithServerTransportStream(t.Context(), stream), ordered(), &grpc.UnaryServerInfo{FullMethod: payMethod},
			func(ctx context.Context, _ any) (any, error) {
				if err := grpc.SetHeader(ctx, metadata.Pairs("x-set", "1")); err != nil {
					t.Error(err)
				}
				return new(testpb.Receipt), grpc.SendHeader(ctx, metadata.Pairs("x-sent", "2"))
			})
		if err != nil {
			t.Error(err)
		}
		got := *stream.header
		if !slices.Equal(got["x-set"], []string{"1"}) || !slices.Equal(got["x-sent"], []string{"2"}) || !slices.Equal(got["idempotent-replayed"], replayed) {
			t.Errorf("header = %v", got)
		}
	}
}

// Without a server there is no place for a header, and the answer is the same.
func TestAnswerNeedsNoServer(t *testing.T) {
	unary := grpclock.Idempotent(newLocker(t), payOnce())
	ran := 0
	for range 2 {
		reply, err := unary(t.Context(), ordered(), &grpc.UnaryServerInfo{FullMethod: payMethod}, func(context.Context, any) (any, error) {
			ran++
			return &testpb.Receipt{Text: "paid"}, nil
		})
		if receipt, ok := reply.(*testpb.Receipt); !ok || receipt.GetText() != "paid" || err != nil {
			t.Errorf("reply = %v, %v", reply, err)
		}
	}
	if ran != 1 {
		t.Errorf("the handler ran %d times, want once", ran)
	}
}

// The end of a context, which a handler hands on, is told as gRPC tells it: it is no answer.
func TestEndOfAContextIsNoAnswer(t *testing.T) {
	unary := grpclock.Idempotent(newLocker(t), payOnce())
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		ran := false
		_, err := unary(t.Context(), ordered(), &grpc.UnaryServerInfo{FullMethod: payMethod}, func(context.Context, any) (any, error) {
			ran = true
			return nil, end
		})
		if !ran || status.FromContextError(err).Code() == codes.Unknown {
			t.Errorf("ran = %v, error = %v", ran, err)
		}
	}
}

func TestMethodThatIsNotAnsweredOnceCostsNothing(t *testing.T) {
	unary := grpclock.Idempotent(newLocker(t), payOnce())
	handler := func(context.Context, any) (any, error) { return nil, nil }
	info, ctx := &grpc.UnaryServerInfo{FullMethod: rpctest.RefundMethod}, context.Background()
	if n := testing.AllocsPerRun(100, func() { _, _ = unary(ctx, nil, info, handler) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// What an interceptor between the two makes of the answer to a lost lock, be it a reply, is no answer: neither where the lock is one of an interceptor
// behind it, nor where it is that of another Idempotent.
func TestReplyInPlaceOfALostLockIsNoAnswer(t *testing.T) {
	locks, client := testenv.Locker(t)
	other := testenv.Open(t, client)
	outer := payOnce()
	rule := outer[payMethod]
	rule.Flight.Crash, rule.Flight.Policy.Prefix = lockmw.Uncertain, "outer:"
	outer[payMethod] = rule
	info := &grpc.UnaryServerInfo{FullMethod: payMethod}
	for name, inner := range map[string]grpc.UnaryServerInterceptor{
		"lock":       grpclock.UnaryServerInterceptor(locks, grpclock.Rules{payMethod: {Key: keyfunc.MustParse("{body.order_id}")}}),
		"idempotent": grpclock.Idempotent(locks, payOnce()),
	} {
		order := ordered()
		order.OrderId += name
		runs := 0
		call := func() (any, error) {
			return grpclock.Idempotent(locks, outer)(t.Context(), order, info, func(ctx context.Context, req any) (any, error) {
				reply, err := inner(ctx, req, info, func(ctx context.Context, _ any) (any, error) {
					runs++
					lease, _ := lockmw.FromContext(ctx)
					return new(testpb.Receipt), other.ForceRelease(context.Background(), lease.Key())
				})
				if grpclock.CodeOf(err) != lockmw.CodeLost {
					t.Errorf("%s: %v, %v, want that the lock was lost", name, reply, err)
				}
				return &testpb.Receipt{Text: "try later"}, nil
			})
		}
		if reply, err := call(); err != nil || reply.(*testpb.Receipt).GetText() != "try later" {
			t.Errorf("%s: the first reply is %v, %v", name, reply, err)
		}
		if reply, err := call(); grpclock.CodeOf(err) != lockmw.CodeIdempotencyUncertain || runs != 1 {
			t.Errorf("%s: the second reply is %v, %v after %d runs, want that nobody knows", name, reply, err, runs)
		}
	}
}

// A lock in front of Idempotent is told, once for each method. Behind it a lock is right.
func TestLockInFrontOfIdempotentIsTold(t *testing.T) {
	var log testenv.Journal
	env := testenv.New(t, redistest.Embedded(t))
	locks := env.NewLocker(log.Option())
	rules := payOnce()
	rules[rpctest.RefundMethod] = rules[payMethod]
	once := grpclock.Idempotent(locks, rules)
	lock := grpclock.UnaryServerInterceptor(locks, grpclock.Rules{rpctest.ShopService + "*": {Key: keyfunc.MustParse("{body.order_id}")}})
	for _, of := range []struct {
		method, order string
		chain         [2]grpc.UnaryServerInterceptor
	}{
		{payMethod, "1", [2]grpc.UnaryServerInterceptor{lock, once}},
		{payMethod, "2", [2]grpc.UnaryServerInterceptor{lock, once}},
		{rpctest.RefundMethod, "1", [2]grpc.UnaryServerInterceptor{once, lock}},
	} {
		order, info := ordered(), &grpc.UnaryServerInfo{FullMethod: of.method}
		order.OrderId = of.order
		_, err := of.chain[0](t.Context(), order, info, func(ctx context.Context, req any) (any, error) {
			return of.chain[1](ctx, req, info, func(context.Context, any) (any, error) { return new(testpb.Receipt), nil })
		})
		if err != nil {
			t.Errorf("%s: %v", of.method, err)
		}
	}
	env.CloseNow(locks)
	if log.Count("in front of Idempotent", payMethod) != 1 || log.Count("in front of Idempotent") != 1 {
		t.Errorf("want one line, of the first method:\n%s", log.Text())
	}
}
