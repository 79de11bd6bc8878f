package grpcretry_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockclient"
	"github.com/lockmw/kit/lockclient/grpcretry"
	"github.com/lockmw/kit/lockmw"
)

// soon is what the service says.
const soon = 50 * time.Millisecond

// A shop is paid under the lock of an order.
type shop struct {
	testpb.UnimplementedShopServer
	ran   atomic.Int32
	fails error // what Pay returns
}

func (s *shop) Pay(ctx context.Context, _ *testpb.Order) (*testpb.Receipt, error) {
	s.ran.Add(1)
	if s.fails != nil {
		return nil, s.fails
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs("paid", "yes"))
	return &testpb.Receipt{Text: "paid"}, nil
}

// serve returns a client of a shop, whose calls have a budget, and what is told of refusals.
func serve(t *testing.T, e *testenv.Env, p lockmw.Policy, b lockclient.Budget, s *shop) testpb.ShopClient {
	t.Helper()
	rules := grpclock.Rules{rpctest.PayMethod: {Key: keyfunc.MustParse("{body.order_id}"), Policy: p}}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(e.Locks, rules)))
	testpb.RegisterShopServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(grpcretry.UnaryInterceptor(b)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return testpb.NewShopClient(conn)
}

func hold(t *testing.T, e *testenv.Env) (release func()) {
	t.Helper()
	lease := e.Take("order:42")
	return func() { e.Release(lease) }
}

var policy = lockmw.Policy{Prefix: "order:", RetryAfter: soon}

func TestACallIsMadeAgainWhereItHelps(t *testing.T) {
	e := testenv.New(t, redistest.Embedded(t))
	release := hold(t, e)
	var told []lockclient.Refusal
	var s shop
	client := serve(t, e, policy, lockclient.Budget{OnRefusal: func(_ context.Context, r lockclient.Refusal) {
		if told = append(told, r); len(told) == 2 {
			release()
		}
	}}, &s)
	began := time.Now()
	var trailer metadata.MD
	receipt, err := client.Pay(t.Context(), &testpb.Order{OrderId: "42"}, grpc.Trailer(&trailer))
	if err != nil || receipt.GetText() != "paid" || s.ran.Load() != 1 {
		t.Errorf("%v, %v, and the handler ran %d times", receipt, err, s.ran.Load())
	}
	if took := time.Since(began); len(told) != 2 || told[0].Code != lockmw.CodeBusy || told[0].After != soon || took < 2*soon {
		t.Errorf("after %v, told of %+v", took, told)
	}
	if !slices.Equal(trailer["paid"], []string{"yes"}) || len(trailer["grpc-retry-pushback-ms"]) > 0 {
		t.Errorf("the trailer is %v, and is not that of the last try", trailer)
	}
}

func TestTheBudgetOfCallsIsUsedUp(t *testing.T) {
	e := testenv.New(t, redistest.Embedded(t))
	defer hold(t, e)()
	tries := 0
	var s shop
	client := serve(t, e, policy, lockclient.Budget{Retries: 2, OnRefusal: func(context.Context, lockclient.Refusal) { tries++ }}, &s)
	if _, err := client.Pay(t.Context(), &testpb.Order{OrderId: "42"}); status.Code(err) != codes.Aborted || grpclock.CodeOf(err) != lockmw.CodeBusy || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

func TestWhatAskingAgainDoesNotChange(t *testing.T) {
	e := testenv.New(t, redistest.Embedded(t))
	tries := 0
	var s shop
	cooling := policy
	cooling.MinHold = time.Minute
	client := serve(t, e, cooling, lockclient.Budget{OnRefusal: func(context.Context, lockclient.Refusal) { tries++ }}, &s)
	if _, err := client.Pay(t.Context(), &testpb.Order{OrderId: "42"}); err != nil {
		t.Fatal(err)
	}
	for order, want := range map[string]string{"42": lockmw.CodeCooldown, "": lockmw.CodeKeyInvalid} {
		if _, err := client.Pay(t.Context(), &testpb.Order{OrderId: order}); grpclock.CodeOf(err) != want {
			t.Errorf("order %q: %v, want %s", order, err, want)
		}
	}
	if tries != 0 || s.ran.Load() != 1 {
		t.Errorf("asked again %d times, and the handler ran %d times", tries, s.ran.Load())
	}
}

func TestACallThatEndsInAPause(t *testing.T) {
	e := testenv.New(t, redistest.Embedded(t))
	defer hold(t, e)()
	ctx, cancel := context.WithCancel(t.Context())
	long := policy
	long.RetryAfter = time.Minute
	var s shop
	client := serve(t, e, long, lockclient.Budget{Within: time.Hour, OnRefusal: func(context.Context, lockclient.Refusal) { cancel() }}, &s)
	if _, err := client.Pay(ctx, &testpb.Order{OrderId: "42"}); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

// A handler that has worked returns what another service has told it.
func TestTheRefusalOfAnotherMethodIsNotAskedAgain(t *testing.T) {
	refusal, err := status.New(codes.Aborted, "others are at work").WithDetails(
		rpcrefusal.Info(lockmw.CodeBusy, "/stock.v1.Stock/Reserve"), &errdetails.RetryInfo{RetryDelay: durationpb.New(soon)})
	if err != nil {
		t.Fatal(err)
	}
	s := shop{fails: fmt.Errorf("reserve: %w", refusal.Err())}
	client := serve(t, testenv.New(t, redistest.Embedded(t)), policy, lockclient.Budget{}, &s)
	if _, err := client.Pay(t.Context(), &testpb.Order{OrderId: "42"}); grpclock.CodeOf(err) != lockmw.CodeBusy || s.ran.Load() != 1 {
		t.Errorf("%v, and the handler ran %d times", err, s.ran.Load())
	}
}
