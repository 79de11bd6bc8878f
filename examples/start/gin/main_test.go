package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func post(locks *lockmw.Locker, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	routes(locks).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	return w
}

func TestAnOrderIsPaidByOneAtATime(t *testing.T) {
	locks := locktest.New(t)                       // over a Redis inside the test
	release := locktest.Hold(t, locks, "order:42") // as another process would
	for _, path := range []string{"/orders/42/pay", "/orders/42/cancel", "/orders/042/pay"} {
		if got := post(locks, path); got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "LOCK_WAIT_TIMEOUT") {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	release()
	if got := post(locks, "/orders/42/pay"); got.Code != http.StatusOK {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}
