package main

import (
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// once gives all requests of a user with one idempotency key the answer of the first. It stands behind your sign-in, which calls c.Set("user", …),
// and in front of the lock: r.POST("/orders/:id/pay", signIn, once(locks), perOrder, pay(charge)).
func once(locks *lockmw.Locker) gin.HandlerFunc {
	return ginlock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain})
}
