package main

import (
	"time"

	"github.com/labstack/echo/v5"

	echolock "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// signIn stands for your sign-in. Here, everybody is ann.
func signIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		c.Set("user", "ann")
		return next(c)
	}
}

// once gives a user's requests to a route the answer of the first one with the same idempotency key.
func once(locks *lockmw.Locker) echo.MiddlewareFunc {
	return echolock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain})
}
