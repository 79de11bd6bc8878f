package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/kit/locktest"
)

func click(handler http.Handler, user, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.SetBasicAuth(user, "secret")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func basicAuth(r *http.Request) (string, bool) {
	name, _, ok := r.BasicAuth()
	return name, ok
}

func TestASecondClickIsRefused(t *testing.T) {
	payments := 0
	handler := routes(locktest.New(t), basicAuth, func(http.ResponseWriter, *http.Request) { payments++ })
	for _, c := range []struct {
		user, path string
		want       int
	}{
		{"ann", "/orders/42/pay", 200},
		{"ann", "/orders/42/pay", 409},
		{"ann", "/orders/43/pay", 200},
		{"bob", "/orders/42/pay", 200},
	} {
		w := click(handler, c.user, c.path)
		if w.Code != c.want {
			t.Errorf("%s, %s: %d, want %d", c.user, c.path, w.Code, c.want)
		}
		if w.Code == 409 && w.Header().Get("Retry-After") != "" {
			t.Error("the refusal invites the client to pay again")
		}
	}
	if payments != 3 {
		t.Errorf("%d payments, want 3", payments)
	}
}

func TestAClickThatFailedMayBeRepeatedAtOnce(t *testing.T) {
	answers := []int{http.StatusPaymentRequired, http.StatusBadGateway, http.StatusCreated}
	handler := routes(locktest.New(t), basicAuth, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[0])
		answers = answers[1:]
	})
	for i, want := range []int{http.StatusPaymentRequired, http.StatusBadGateway, http.StatusCreated, http.StatusConflict} {
		if w := click(handler, "ann", "/orders/42/pay"); w.Code != want {
			t.Errorf("click %d: %d, want %d", i+1, w.Code, want)
		}
	}
}
