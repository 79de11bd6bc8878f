package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
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
	demotest.Replayed(t, mux, &paid)
}
