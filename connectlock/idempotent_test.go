package connectlock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// payOnce answers the unary method once for an order of a user.
func payOnce() connectlock.IdempotentRules {
	return connectlock.IdempotentRules{rpctest.PayMethod: {Key: keyfunc.MustParse("{body.customer.id}:{body.order_id}"), Flight: lockmw.Flight{Retain: time.Minute}}}
}

func ordered(id string) *testpb.Order {
	return &testpb.Order{OrderId: id, Customer: &testpb.Customer{Id: "ann"}}
}

type pay = func(ctx context.Context, r *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error)

// servePay serves the unary method with an interceptor, and returns the address.
func servePay(t *testing.T, interceptor connect.Interceptor, handler pay, opts ...connect.HandlerOption) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(rpctest.PayMethod, connect.NewUnaryHandler(rpctest.PayMethod, handler, append(opts, connect.WithInterceptors(interceptor))...))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL + rpctest.PayMethod
}

// What a handler of connect sets in its response, or in its error, is of the answer, in whatever protocol it was asked for first, and in
// whatever it is asked for again.
func TestWhatStandsInAResponseIsGivenAgain(t *testing.T) {
	env := testenv.New(t, redistest.Embedded(t))
	ran := 0
	url := servePay(t, connectlock.Idempotent(env.Locks, payOnce()), func(_ context.Context, r *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		ran++
		if r.Msg.GetExpress() {
			declined := connect.NewError(connect.CodeFailedPrecondition, errors.New("declined"))
			detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "DECLINED"})
			if err != nil {
				t.Error(err)
			}
			declined.AddDetail(detail)
			declined.Meta().Set("X-Total", "12")
			declined.Meta().Set("X-Proof-Bin", connect.EncodeBinaryHeader([]byte("\x00\xff")))
			return nil, declined
		}
		response := connect.NewResponse(&testpb.Receipt{Text: "paid"})
		response.Header().Add("X-Receipt", "7")
		response.Header().Add("X-Receipt", "8")
		response.Header().Set("Set-Cookie", "a=b")
		response.Trailer().Set("X-Total", "12")
		return response, nil
	})
	for _, first := range protocols {
		for _, again := range protocols {
			t.Run(first.name+", then "+again.name, func(t *testing.T) {
				ran = 0
				for i, p := range []protocol{first, again, first} {
					client := connect.NewClient[testpb.Order, testpb.Receipt](newClient(env), url, p.options...)
					response, err := client.CallUnary(t.Context(), connect.NewRequest(ordered(t.Name())))
					if err != nil {
						t.Fatal(err)
					}
					replayed := response.Header().Get("Idempotent-Replayed") == "true"
					if response.Msg.GetText() != "paid" || !slices.Equal(response.Header()["X-Receipt"], []string{"7", "8"}) ||
						response.Trailer().Get("X-Total") != "12" || replayed != (i > 0) || replayed == (response.Header().Get("Set-Cookie") != "") {
						t.Errorf("answer %d: %v, header %v, trailer %v", i, response.Msg, response.Header(), response.Trailer())
					}
					refused := ordered(t.Name() + " refused")
					refused.Express = true
					_, err = client.CallUnary(t.Context(), connect.NewRequest(refused))
					declined, ok := errors.AsType[*connect.Error](err)
					if !ok {
						t.Fatal(err)
					}
					meta := declined.Meta()
					if declined.Code() != connect.CodeFailedPrecondition || declined.Message() != "declined" || len(declined.Details()) != 1 ||
						declined.Details()[0].Type() != "google.rpc.ErrorInfo" || meta.Get("X-Total") != "12" || (meta.Get("Idempotent-Replayed") == "true") != (i > 0) {
						t.Errorf("error %d: %v, details %v, %v", i, declined, declined.Details(), meta)
					}
					if proof, err := connect.DecodeBinaryHeader(meta.Get("X-Proof-Bin")); string(proof) != "\x00\xff" {
						t.Errorf("error %d: X-Proof-Bin %q, %v", i, proof, err)
					}
				}
				if ran != 2 {
					t.Errorf("the handler ran %d times, want twice", ran)
				}
			})
		}
	}
}

// One method that is served by gRPC for Go and by Connect has one answer.
func TestAnswerOfGRPCIsGivenAgain(t *testing.T) {
	env := testenv.New(t, redistest.Embedded(t))
	reply, err := grpclock.Idempotent(env.Locks, payOnce())(t.Context(), ordered("42"), &grpc.UnaryServerInfo{FullMethod: rpctest.PayMethod},
		func(context.Context, any) (any, error) { return &testpb.Receipt{Text: "paid"}, nil })
	if err != nil {
		t.Fatal(err)
	}
	url := servePay(t, connectlock.Idempotent(env.Locks, payOnce()), func(context.Context, *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		return nil, errors.New("it has run")
	})
	for _, options := range [][]connect.ClientOption{nil, {connect.WithProtoJSON()}, {connect.WithGRPC()}} {
		response, err := connect.NewClient[testpb.Order, testpb.Receipt](newClient(env), url, options...).CallUnary(t.Context(), connect.NewRequest(ordered("42")))
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(response.Msg, reply.(*testpb.Receipt)) || response.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("%v, header %v", response.Msg, response.Header())
		}
	}
}

// A detail is of the same type to clients in any language, which connect's own client does not show.
func TestDetailOfAnErrorKeepsItsType(t *testing.T) {
	env := testenv.New(t, redistest.Embedded(t))
	url := servePay(t, connectlock.Idempotent(env.Locks, payOnce()), func(context.Context, *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		declined := connect.NewError(connect.CodeFailedPrecondition, errors.New("declined"))
		detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "DECLINED"})
		declined.AddDetail(detail)
		return nil, errors.Join(declined, err)
	})
	conn, err := grpc.NewClient(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), rpctest.PayMethod), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, first := testpb.NewShopClient(conn).Pay(t.Context(), ordered("42"))
	_, again := testpb.NewShopClient(conn).Pay(t.Context(), ordered("42"))
	if want := status.Convert(first).Proto(); len(want.GetDetails()) != 1 || !proto.Equal(status.Convert(again).Proto(), want) {
		t.Errorf("error = %v, want %v", status.Convert(again).Proto(), want)
	}
}

// What is called by GET has no effect that could come twice.
func TestGetIsNotAnsweredOnce(t *testing.T) {
	env := testenv.New(t, redistest.Embedded(t))
	ran := 0
	url := servePay(t, connectlock.Idempotent(env.Locks, payOnce()), func(context.Context, *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		ran++
		return connect.NewResponse(new(testpb.Receipt)), nil
	}, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	client := connect.NewClient[testpb.Order, testpb.Receipt](newClient(env), url, connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	for range 2 {
		if _, err := client.CallUnary(t.Context(), connect.NewRequest(new(testpb.Order))); err != nil { // which has no key
			t.Error(err)
		}
	}
	if ran != 2 {
		t.Errorf("the handler ran %d times, want twice", ran)
	}
	env.WantUnasked()
}

// One list of interceptors serves handlers and clients: in these it does nothing.
func TestClientIsNotAnsweredOnce(t *testing.T) {
	env := testenv.New(t, redistest.Embedded(t))
	ran := 0
	url := servePay(t, passes{}, func(context.Context, *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		ran++
		return connect.NewResponse(new(testpb.Receipt)), nil
	})
	once := connect.WithInterceptors(connectlock.Idempotent(env.Locks, payOnce()))
	for range 2 {
		if _, err := connect.NewClient[testpb.Order, testpb.Receipt](newClient(env), url, once).CallUnary(t.Context(), connect.NewRequest(ordered("42"))); err != nil {
			t.Error(err)
		}
	}
	if ran != 2 {
		t.Errorf("the handler ran %d times, want twice", ran)
	}
	env.WantUnasked()
}

func TestProcedureThatIsNotAnsweredOnceCostsNothing(t *testing.T) {
	locks, _ := testenv.Locker(t)
	response := connect.NewResponse(new(testpb.Receipt))
	call := connectlock.Idempotent(locks, payOnce()).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) { return response, nil })
	request, ctx := connect.NewRequest(new(testpb.Order)), context.Background()
	if n := testing.AllocsPerRun(100, func() { _, _ = call(ctx, request) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A lock in front of Idempotent is told. Behind it a lock is right.
func TestLockInFrontOfIdempotentIsTold(t *testing.T) {
	rules := connectlock.Rules{rpctest.PayMethod: {Key: keyfunc.MustParse("{body.order_id}")}}
	for _, inFront := range []bool{true, false} {
		var log testenv.Journal
		env := testenv.New(t, redistest.Embedded(t))
		locks := env.NewLocker(log.Option())
		outer, inner := connectlock.Idempotent(locks, payOnce()), connectlock.Interceptor(locks, rules)
		want := 0
		if inFront {
			outer, inner, want = inner, outer, 1
		}
		url := servePay(t, inner, func(context.Context, *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
			return connect.NewResponse(new(testpb.Receipt)), nil
		}, connect.WithInterceptors(outer))
		for _, p := range protocols {
			client := connect.NewClient[testpb.Order, testpb.Receipt](newClient(env), url, p.options...)
			if _, err := client.CallUnary(t.Context(), connect.NewRequest(ordered(p.name))); err != nil {
				t.Error(err)
			}
		}
		env.CloseNow(locks)
		if log.Count("in front of Idempotent", rpctest.PayMethod) != want || log.Count("in front of Idempotent") != want {
			t.Errorf("in front: %v, want %d lines:\n%s", inFront, want, log.Text())
		}
	}
}
