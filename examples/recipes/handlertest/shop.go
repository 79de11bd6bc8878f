// Package shop is a service with a lock, for the sake of its tests.
package shop

import (
	"context"
	"net/http"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Routes returns the service. charge is what takes the customer's money.
func Routes(locks *lockmw.Locker, charge func(ctx context.Context, order string) error) http.Handler {
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"),
		lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second, TTL: 5 * time.Second})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := charge(r.Context(), r.PathValue("id")); err != nil && r.Context().Err() == nil {
			http.Error(w, "not paid", http.StatusBadGateway)
		}
	})))
	return mux
}
