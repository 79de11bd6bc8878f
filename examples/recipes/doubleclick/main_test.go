package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// click sends a request with an idempotency key; empty: without one.
func click(handler http.Handler, user, key, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.SetBasicAuth(user, "secret")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func basicAuth(r *http.Request) (string, bool) {
	name, _, ok := r.BasicAuth()
	return name, ok
}

func TestBothClicksGetTheReceipt(t *testing.T) {
	payments := 0
	handler := routes(locktest.New(t), basicAuth, func(w http.ResponseWriter, _ *http.Request) {
		payments++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "receipt ", payments)
	})
	for _, c := range []struct {
		user, key, path, body string
		want                  int
		receipt               string
	}{
		{"ann", "k1", "/orders/42/pay", "7", 201, "receipt 1"},
		{"ann", "k1", "/orders/42/pay", "7", 201, "receipt 1"},
		{"ann", `"k1"`, "/orders/42/pay", "7", 201, "receipt 1"},
		{"ann", "k1", "/orders/42/pay", "8", 422, ""},
		{"ann", "k2", "/orders/42/pay", "7", 201, "receipt 2"},
		{"bob", "k1", "/orders/42/pay", "7", 201, "receipt 3"},
		{"ann", "", "/orders/42/pay", "7", 400, ""},
	} {
		w := click(handler, c.user, c.key, c.path, c.body)
		if got := w.Body.String(); w.Code != c.want || c.receipt != "" && got != c.receipt {
			t.Errorf("%+v: %d %s", c, w.Code, got)
		}
		if w.Code >= 400 && w.Header().Get("Retry-After") != "" {
			t.Errorf("%+v: the refusal invites the client to pay again", c)
		}
	}
	if payments != 3 {
		t.Errorf("%d payments, want 3", payments)
	}
}

// One key, four times: a click, a second one while the first is at work, a third one later, and one with another body.
func TestTheSecondClickWaitsForTheReceipt(t *testing.T) {
	locks := locktest.New(t)
	payments, atWork := 0, make(chan struct{})
	handler := routes(locks, basicAuth, func(w http.ResponseWriter, _ *http.Request) {
		if payments++; payments == 1 {
			close(atWork)
			for _, key := range locktest.Keys(t, locks) { // also the order's
				if strings.HasPrefix(key, once.Policy.Prefix) {
					locktest.AwaitWaiters(t, locks, key, 1)
				}
			}
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "payment ", payments)
	})
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- click(handler, "ann", "k1", "/orders/42/pay", "7") }()
	<-atWork
	second := click(handler, "ann", "k1", "/orders/42/pay", "7")
	for _, c := range []struct {
		name     string
		got      *httptest.ResponseRecorder
		want     int
		receipt  string
		replayed string
	}{
		{"the first", <-first, 201, "payment 1", ""},
		{"the second", second, 201, "payment 1", "true"},
		{"a later one", click(handler, "ann", "k1", "/orders/42/pay", "7"), 201, "payment 1", "true"},
		{"another body", click(handler, "ann", "k1", "/orders/42/pay", "8"), 422, "", ""},
	} {
		if c.got.Code != c.want || c.receipt != "" && c.got.Body.String() != c.receipt || c.got.Header().Get("Idempotent-Replayed") != c.replayed {
			t.Errorf("%s: %d %v %s", c.name, c.got.Code, c.got.Header(), c.got.Body)
		}
	}
	if payments != 1 {
		t.Errorf("%d payments, want 1", payments)
	}
}

// A payment whose process died in the middle is not made again until somebody has looked.
func TestNobodyKnowsWhetherItWasPaid(t *testing.T) {
	locks, payments := locktest.New(t), 0
	handler := routes(locks, basicAuth, func(w http.ResponseWriter, _ *http.Request) {
		if payments++; payments == 1 {
			locktest.Crash(t, locks) // the card is charged, and the process dies
		}
		w.WriteHeader(http.StatusCreated)
	})
	pay := func() *httptest.ResponseRecorder { return click(handler, "ann", "k1", "/orders/42/pay", "7") }
	pay() // its client hears nothing
	if w := pay(); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "IDEMPOTENCY_UNCERTAIN") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if payments != 1 {
		t.Errorf("%d payments, want 1", payments)
	}
	for _, unknown := range locktest.Uncertain(t, locks) { // somebody has looked: the bank knows of nothing
		if err := locks.Resolve(t.Context(), unknown.Key, unknown.ID, lockmw.Again); err != nil {
			t.Error(err)
		}
	}
	if w := pay(); w.Code != http.StatusCreated {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
