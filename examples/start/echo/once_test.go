package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	echolock "github.com/lockmw/kit/echolock/v5"
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
	for _, want := range []string{"", "true"} {
		w := httptest.NewRecorder()
		click := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
		click.Header.Set("Idempotency-Key", "k1")
		e.ServeHTTP(w, click)
		if got := w.Header().Get("Idempotent-Replayed"); w.Code != http.StatusOK || w.Body.String() != "paid\n" || got != want || paid != 1 {
			t.Errorf("%d %s, replayed %q, paid %d times; want a replay %q of one payment", w.Code, w.Body, got, paid, want)
		}
	}
}
