package main

import (
	"context"
	"testing"

	"github.com/labstack/echo/v5"

	echolock "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// As the comment of once has it.
func TestTheSecondClickGetsTheAnswerOfTheFirst(t *testing.T) {
	locks, paid := locktest.New(t), 0
	signIn := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("user", "ann")
			return next(c)
		}
	}
	perOrder := echolock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"})
	e := echo.New()
	e.POST("/orders/:id/pay", pay(func(context.Context) error {
		paid++
		return nil
	}), signIn, once(locks), perOrder)
	demotest.Replayed(t, e, &paid)
}
