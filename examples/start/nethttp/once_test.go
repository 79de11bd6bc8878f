package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// As the comment of once has it.
func TestTheSecondClickGetsTheAnswerOfTheFirst(t *testing.T) {
	locks, paid := locktest.New(t), 0
	signIn := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "ann")))
		})
	}
	perOrder := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", signIn(once(locks)(perOrder(pay(func(context.Context) error {
		paid++
		return nil
	})))))
	for _, want := range []string{"", "true"} {
		w := httptest.NewRecorder()
		click := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
		click.Header.Set("Idempotency-Key", "k1")
		mux.ServeHTTP(w, click)
		if got := w.Header().Get("Idempotent-Replayed"); w.Code != http.StatusOK || w.Body.String() != "paid\n" || got != want || paid != 1 {
			t.Errorf("%d %s, replayed %q, paid %d times; want a replay %q of one payment", w.Code, w.Body, got, paid, want)
		}
	}
}
