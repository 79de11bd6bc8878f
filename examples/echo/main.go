// Echo locks routes of Echo v5, and a part of a handler.
//
//	go run ./examples/echo
//
// Try it in another terminal:
//
//	# Two payments of an order: the second waits for the first.
//	curl -X POST localhost:8080/orders/42/pay & sleep 1; curl -X POST localhost:8080/orders/42/pay; wait
//
//	# Two transfers of a customer, who stands in the body: the second gets 409 at once.
//	curl localhost:8080/transfers --json '{"customer":{"id":7}}' & sleep 1; curl -i localhost:8080/transfers --json '{"customer":{"id":7}}'; wait
//
//	# Two reports: the handler takes the lock itself, and answers for itself.
//	curl -X POST localhost:8080/report & sleep 1; curl -i -X POST localhost:8080/report; wait
//
// REDIS_ADDR names a Redis; without it one runs inside the program.
package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/examples/internal/demo"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func main() { demo.Main(serve) }

func serve(ctx context.Context, o demo.Options) error {
	client, closeRedis, err := demo.Open(ctx)
	if err != nil {
		return err
	}
	defer closeRedis()
	locks, err := lockmw.New(client)
	if err != nil {
		return err
	}
	defer locks.Close(ctx) // after the last request
	return demo.Serve(ctx, o, routes(locks, o.Work))
}

func routes(locks *lockmw.Locker, work time.Duration) http.Handler {
	pay := echolock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 10 * time.Second})
	transfer := echolock.Middleware(locks, keyfunc.MustParse("{body.customer.id}"), lockmw.Policy{Prefix: "customer:"})

	done := func(c *echo.Context) error {
		if err := demo.Work(c.Request().Context(), work); err != nil {
			return err // the lock is lost, or the client gone
		}
		return c.String(http.StatusOK, "done\n")
	}
	report := func(c *echo.Context) error {
		err := locks.WithLock(c.Request().Context(), "report", lockmw.Policy{}, func(ctx context.Context) error { return demo.Work(ctx, work) })
		switch {
		case errors.Is(err, lockmw.ErrNotAcquired):
			return echo.NewHTTPError(http.StatusConflict, "somebody writes it already")
		case err != nil:
			return err
		}
		return c.String(http.StatusOK, "written\n")
	}
	e := echo.New()
	e.Use(middleware.Recover())
	e.POST("/orders/:id/pay", done, pay)
	e.POST("/transfers", done, transfer)
	e.POST("/report", report)
	return e
}
