package main

import (
	"time"

	"github.com/labstack/echo/v5"

	echolock "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// once gives all requests of a user with one idempotency key the answer of the first. It stands behind your sign-in, which calls c.Set("user", …),
// and in front of the lock: e.POST("/orders/:id/pay", pay(charge), signIn, once(locks), perOrder).
func once(locks *lockmw.Locker) echo.MiddlewareFunc {
	return echolock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain})
}
