package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

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
	if err := stop(); err != nil {
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
