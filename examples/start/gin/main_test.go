package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/locktest"
)

func post(handler http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	return w
}

func TestAnOrderIsPaidByOneAtATime(t *testing.T) {
	locks := locktest.New(t) // over a Redis inside the test
	handler := routes(locks, charge)
	release := locktest.Hold(t, locks, "order:42") // as another process would
	for _, path := range []string{"/orders/42/pay", "/orders/42/cancel", "/orders/042/pay"} {
		if got := post(handler, path); got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "LOCK_WAIT_TIMEOUT") {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	release()
	if got := post(handler, "/orders/42/pay"); got.Code != http.StatusOK {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}
