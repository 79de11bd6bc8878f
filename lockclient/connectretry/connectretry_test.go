package connectretry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockclient"
	"github.com/lockmw/kit/lockclient/connectretry"
	"github.com/lockmw/kit/lockmw"
)

// soon is what the service says. The protocol Connect says it in whole seconds as well; the detail counts.
const soon = 50 * time.Millisecond

// A shop is paid under the lock of an order.
type shop struct {
	*testenv.Env
	policy lockmw.Policy
	ran    atomic.Int32
	fails  error    // what Pay returns
	tries  []string // the header X-Try of its last call
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return &shop{Env: testenv.New(t, redistest.Embedded(t)), policy: lockmw.Policy{Prefix: "order:", RetryAfter: soon}}
}

func (s *shop) pay(_ context.Context, r *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
	s.ran.Add(1)
	if s.tries = r.Header().Values("X-Try"); s.fails != nil {
		return nil, s.fails
	}
	answer := connect.NewResponse(&testpb.Receipt{Text: r.Msg.GetOrderId() + r.Header().Get("X-Tenant")})
	answer.Header().Set("Paid", "yes")
	return answer, nil
}

// client serves the shop and returns a client, whose calls have a budget.
func (s *shop) client(t *testing.T, b lockclient.Budget, opts ...connect.ClientOption) *connect.Client[testpb.Order, testpb.Receipt] {
	t.Helper()
	rules := grpclock.Rules{rpctest.PayMethod: {Key: keyfunc.MustParse("{body.order_id}"), Policy: s.policy}}
	// An interceptor for clients in a handler's chain does nothing there.
	chain := connect.WithInterceptors(connectretry.Interceptor(lockclient.Budget{}), connectlock.Interceptor(s.Locks, rules))
	mux := http.NewServeMux()
	mux.Handle(rpctest.PayMethod, connect.NewUnaryHandler(rpctest.PayMethod, s.pay, chain))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	base := &http.Transport{Protocols: new(http.Protocols)}
	base.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(func() {
		base.CloseIdleConnections()
		server.Close()
	})
	opts = append([]connect.ClientOption{connect.WithInterceptors(connectretry.Interceptor(b))}, opts...)
	return connect.NewClient[testpb.Order, testpb.Receipt](&http.Client{Transport: base}, server.URL+rpctest.PayMethod, opts...)
}

func order(id string) *connect.Request[testpb.Order] {
	r := connect.NewRequest(&testpb.Order{OrderId: id})
	r.Header().Set("X-Tenant", "acme")
	return r
}

var protocols = map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}}

func TestACallIsMadeAgainWhereItHelps(t *testing.T) {
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			lease := s.Take("order:42")
			var told []lockclient.Refusal
			client := s.client(t, lockclient.Budget{OnRefusal: func(_ context.Context, r lockclient.Refusal) {
				if told = append(told, r); len(told) == 2 {
					s.Release(lease)
				}
			}}, opts...)
			began := time.Now()
			answer, err := client.CallUnary(t.Context(), order("42"))
			if err != nil {
				t.Fatal(err)
			}
			if answer.Msg.GetText() != "42acme" || answer.Header().Get("Paid") != "yes" || s.ran.Load() != 1 {
				t.Errorf("%v, and the handler ran %d times", answer.Msg, s.ran.Load())
			}
			if took := time.Since(began); len(told) != 2 || told[0].Code != lockmw.CodeBusy || told[0].After != soon || took < 2*soon {
				t.Errorf("after %v, told of %+v", took, told)
			}
		})
	}
}

func TestTheBudgetOfCallsIsUsedUp(t *testing.T) {
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.Take("order:42")
			tries := 0
			client := s.client(t, lockclient.Budget{Retries: 2, OnRefusal: func(context.Context, lockclient.Refusal) { tries++ }}, opts...)
			_, err := client.CallUnary(t.Context(), order("42"))
			if connect.CodeOf(err) != connect.CodeAborted || connectlock.CodeOf(err) != lockmw.CodeBusy || tries != 3 {
				t.Errorf("%v after %d tries", err, tries)
			}
		})
	}
}

func TestWhatAskingAgainDoesNotChange(t *testing.T) {
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.policy.MinHold = time.Minute
			tries := 0
			client := s.client(t, lockclient.Budget{OnRefusal: func(context.Context, lockclient.Refusal) { tries++ }}, opts...)
			if _, err := client.CallUnary(t.Context(), order("42")); err != nil {
				t.Fatal(err)
			}
			for id, want := range map[string]string{"42": lockmw.CodeCooldown, "": lockmw.CodeKeyInvalid} {
				if _, err := client.CallUnary(t.Context(), order(id)); connectlock.CodeOf(err) != want {
					t.Errorf("order %q: %v, want %s", id, err, want)
				}
			}
			if tries != 0 || s.ran.Load() != 1 {
				t.Errorf("asked again %d times, and the handler ran %d times", tries, s.ran.Load())
			}
		})
	}
}

func TestACallThatEndsInAPause(t *testing.T) {
	s := newShop(t)
	s.policy.RetryAfter = time.Minute
	s.Take("order:42")
	ctx, cancel := context.WithCancel(t.Context())
	client := s.client(t, lockclient.Budget{Within: time.Hour, OnRefusal: func(context.Context, lockclient.Refusal) { cancel() }})
	if _, err := client.CallUnary(ctx, order("42")); connect.CodeOf(err) != connect.CodeCanceled {
		t.Error(err)
	}
}

// Interceptors behind this one may add to the header of a request.
func TestEachTryHasTheHeaderOfItsOwn(t *testing.T) {
	s := newShop(t)
	lease := s.Take("order:42")
	tries := 0
	client := s.client(t, lockclient.Budget{OnRefusal: func(context.Context, lockclient.Refusal) {
		if tries++; tries == 2 {
			s.Release(lease)
		}
	}}, connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Add("X-Try", strconv.Itoa(tries))
			return next(ctx, r)
		}
	})))
	answer, err := client.CallUnary(t.Context(), order("42"))
	if err != nil || answer.Msg.GetText() != "42acme" || !slices.Equal(s.tries, []string{"2"}) {
		t.Errorf("%v, and X-Try was %q", err, s.tries)
	}
}

// A handler that has worked returns what another service has told it.
func TestTheRefusalOfAnotherMethodIsNotAskedAgain(t *testing.T) {
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			refusal := connect.NewError(connect.CodeAborted, errors.New("others are at work"))
			for _, detail := range []proto.Message{rpcrefusal.Info(lockmw.CodeBusy, "/stock.v1.Stock/Reserve"), &errdetails.RetryInfo{RetryDelay: durationpb.New(soon)}} {
				encoded, err := connect.NewErrorDetail(detail)
				if err != nil {
					t.Fatal(err)
				}
				refusal.AddDetail(encoded)
			}
			s.fails = fmt.Errorf("reserve: %w", refusal)
			client := s.client(t, lockclient.Budget{}, opts...)
			if _, err := client.CallUnary(t.Context(), order("42")); connectlock.CodeOf(err) != lockmw.CodeBusy || s.ran.Load() != 1 {
				t.Errorf("%v, and the handler ran %d times", err, s.ran.Load())
			}
		})
	}
}
