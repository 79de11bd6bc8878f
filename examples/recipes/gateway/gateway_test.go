package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// orders tells which lock a call has.
type orders struct {
	shopv1.UnimplementedOrdersServer
}

func (orders) Pay(ctx context.Context, _ *shopv1.PayRequest) (*shopv1.PayReply, error) {
	if lease, ok := lockmw.FromContext(ctx); ok {
		return &shopv1.PayReply{Text: "under " + lease.Key()}, nil
	}
	return &shopv1.PayReply{Text: "without a lock"}, nil
}

func pay(handler http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/shop.v1.Orders/Pay", strings.NewReader(`{"orderId": "42"}`)))
	return w
}

func TestTheGatewayTakesTheLock(t *testing.T) {
	locks := locktest.New(t)
	server, err := NewServer(locks, orders{})
	if err != nil {
		t.Fatal(err)
	}
	handler, stop, err := NewHandler(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if got := pay(handler); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "under order:42") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	locktest.Down(t, locks)
	got := pay(handler)
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" || !strings.Contains(got.Body.String(), lockmw.CodeBackendUnavailable) {
		t.Errorf("while Redis is down: %d %s %v", got.Code, got.Body, got.Header())
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// This is what the recipe is about.
func TestTheInProcessGatewayGoesRoundTheLock(t *testing.T) {
	mux := runtime.NewServeMux()
	if err := RegisterOrdersHandlerServer(t.Context(), mux, orders{}); err != nil {
		t.Fatal(err)
	}
	if got := pay(mux); !strings.Contains(got.Body.String(), "without a lock") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// The document has these statuses side by side.
func TestTheGatewayAnswersOtherStatusesThanHTTP(t *testing.T) {
	for name, tc := range map[string]struct {
		err                  error
		code                 codes.Code
		gateway, middlewares int
	}{
		"others hold the lock":            {lockmw.ErrNotAcquired, codes.Aborted, 409, 409},
		"too many wait":                   {lockmw.ErrQueueFull, codes.ResourceExhausted, 429, 503},
		"Redis cannot be reached":         {lockmw.ErrUnavailable, codes.Unavailable, 503, 503},
		"the request's deadline":          {fmt.Errorf("%w: %w", lockmw.ErrNotAcquired, context.DeadlineExceeded), codes.DeadlineExceeded, 504, 409},
		"no key can be made":              {lockmw.ErrInvalidKey, codes.InvalidArgument, 400, 400},
		"the lock was lost":               {lockmw.ErrLost, codes.Internal, 500, 500},
		"a mistake of the program":        {lockmw.ErrInvalidPolicy, codes.Internal, 500, 500},
		"a nested acquire, a mistake too": {lockmw.ErrReentrant, codes.Internal, 500, 500},
		"a key used for another request":  {lockmw.ErrOtherRequest, codes.InvalidArgument, 400, 422},
		"nobody knows":                    {lockmw.ErrUncertain, codes.FailedPrecondition, 400, 409},
	} {
		refusal, _ := lockmw.RefusalOf(tc.err)
		code := codes.Code(refusal.GRPCCode)
		if got := runtime.HTTPStatusFromCode(code); code != tc.code || got != tc.gateway || refusal.Status != tc.middlewares {
			t.Errorf("%s: %v, %d through the gateway, %d by a middleware; want %v, %d, %d", name, code, got, refusal.Status, tc.code, tc.gateway, tc.middlewares)
		}
	}
}

// A key can be made of a header only if the gateway lets it through.
func TestTheGatewayLetsHeadersThrough(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/shop.v1.Orders/Pay", nil)
	r.Header.Set("Idempotency-Key", "k1")
	for name, tc := range map[string]struct {
		mux  *runtime.ServeMux
		want int
	}{
		"as a gateway does by default": {runtime.NewServeMux(), 0},
		"with headers":                 {runtime.NewServeMux(runtime.WithIncomingHeaderMatcher(headers)), 1},
	} {
		ctx, err := runtime.AnnotateContext(t.Context(), tc.mux, r, "/shop.v1.Orders/Pay")
		if err != nil {
			t.Fatal(err)
		}
		sent, _ := metadata.FromOutgoingContext(ctx)
		if got := sent.Get("idempotency-key"); len(got) != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A call that does not get its lock is told when to ask again.
func TestTheGatewayTellsWhoIsRefused(t *testing.T) {
	locks := locktest.New(t)
	server, err := NewServer(locks, orders{})
	if err != nil {
		t.Fatal(err)
	}
	handler, stop, err := NewHandler(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	release := locktest.Hold(t, locks, "order:42") // as another process would
	got := pay(handler)
	release()
	if got.Code != http.StatusConflict || got.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s %v", got.Code, got.Body, got.Header())
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A hanging is a service whose methods do not look at their context.
type hanging struct {
	shopv1.UnimplementedOrdersServer

	began, ends chan struct{}
}

func (h hanging) Pay(context.Context, *shopv1.PayRequest) (*shopv1.PayReply, error) {
	close(h.began)
	<-h.ends
	return new(shopv1.PayReply), nil
}

func TestTheEndDoesNotWaitForACallThatHangs(t *testing.T) {
	service := hanging{began: make(chan struct{}), ends: make(chan struct{})}
	server, err := NewServer(locktest.New(t), service)
	if err != nil {
		t.Fatal(err)
	}
	handler, stop, err := NewHandler(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() { answered <- pay(handler).Code }()
	<-service.began
	over, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- stop(over) }()
	select {
	case err := <-stopped:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want that of the context", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it has not ended after 10 s")
	}
	close(service.ends)
	if code := <-answered; code == http.StatusOK {
		t.Error("the request has succeeded")
	}
}
