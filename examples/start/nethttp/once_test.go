package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The line of the route is that of docs/nethttp.md.
func TestWhatASecondClickGets(t *testing.T) {
	demotest.Clicks(t, errNotPaid, func(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler {
		perOrder := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"})
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}/pay", signIn(once(locks)(perOrder(pay(charge)))))
		return mux
	})
}
