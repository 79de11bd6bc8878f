package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"

	echolock "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The line of the route is that of docs/echo.md.
func TestWhatASecondClickGets(t *testing.T) {
	demotest.Clicks(t, errNotPaid, func(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler {
		perOrder := echolock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"})
		e := echo.New()
		e.POST("/orders/:id/pay", pay(charge), signIn, once(locks), perOrder)
		return e
	})
}
