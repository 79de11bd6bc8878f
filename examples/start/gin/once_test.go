package main

import (
	"context"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// As the comment of once has it.
func TestTheSecondClickGetsTheAnswerOfTheFirst(t *testing.T) {
	locks, paid := locktest.New(t), 0
	signIn := func(c *gin.Context) { c.Set("user", "ann") }
	perOrder := ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"})
	r := gin.New()
	r.POST("/orders/:id/pay", signIn, once(locks), perOrder, pay(func(context.Context) error {
		paid++
		return nil
	}))
	demotest.Replayed(t, r, &paid)
}
