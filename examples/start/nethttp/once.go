package main

import (
	"net/http"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// userKey is the key under which your sign-in puts the user into the request's context.
type userKey struct{}

// once gives all requests of a user with one idempotency key the answer of the first. It stands behind your sign-in, and in front of the lock:
// mux.Handle("POST /orders/{id}/pay", signIn(once(locks)(perOrder(pay(charge))))).
func once(locks *lockmw.Locker) func(http.Handler) http.Handler {
	return httplock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain},
		httplock.WithValues(func(r *http.Request, name string) (any, bool) { // what {value.user} is in the key
			user, ok := r.Context().Value(userKey{}).(string)
			return user, ok && name == "user"
		}))
}
