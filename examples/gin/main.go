// Gin locks routes of Gin, and a part of a handler.
//
//	go run ./examples/gin
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

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/examples/internal/demo"
	"github.com/lockmw/kit/ginlock"
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
	pay := ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 10 * time.Second})
	transfer := ginlock.Middleware(locks, keyfunc.MustParse("{body.customer.id}"), lockmw.Policy{Prefix: "customer:"})

	done := func(c *gin.Context) {
		if err := demo.Work(c.Request.Context(), work); err == nil { // else the lock is lost, or the client gone
			c.String(http.StatusOK, "done\n")
		}
	}
	report := func(c *gin.Context) {
		err := locks.WithLock(c.Request.Context(), "report", lockmw.Policy{}, func(ctx context.Context) error { return demo.Work(ctx, work) })
		switch {
		case errors.Is(err, lockmw.ErrNotAcquired):
			c.String(http.StatusConflict, "somebody writes it already\n")
		case err != nil:
			c.String(http.StatusInternalServerError, "not written\n")
		default:
			c.String(http.StatusOK, "written\n")
		}
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	r.POST("/orders/:id/pay", pay, done)
	r.POST("/transfers", transfer, done)
	r.POST("/report", report)
	return r
}
