package main

import (
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// signIn stands for your sign-in. Here, everybody is ann.
func signIn(c *gin.Context) { c.Set("user", "ann") }

// once gives a user's requests to a route the answer of the first one with the same idempotency key.
func once(locks *lockmw.Locker) gin.HandlerFunc {
	return ginlock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain})
}
