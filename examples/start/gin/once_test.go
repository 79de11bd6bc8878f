package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The line of the route is that of docs/gin.md.
func TestWhatASecondClickGets(t *testing.T) {
	demotest.Clicks(t, errNotPaid, func(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler {
		perOrder := ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"})
		r := gin.New()
		r.POST("/orders/:id/pay", signIn, once(locks), perOrder, pay(charge))
		return r
	})
}
