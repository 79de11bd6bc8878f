package main

import (
	"context"
	"net/http"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// userKey is the key under which signIn puts the user into the request's context.
type userKey struct{}

// signIn stands for your sign-in. Here, everybody is ann.
func signIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "ann")))
	})
}

// once gives a user's requests to a route the answer of the first one with the same idempotency key.
func once(locks *lockmw.Locker) func(http.Handler) http.Handler {
	return httplock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain},
		httplock.WithValues(func(r *http.Request, name string) (any, bool) { // what {value.user} is in the key
			user, ok := r.Context().Value(userKey{}).(string)
			return user, ok && name == "user"
		}))
}
