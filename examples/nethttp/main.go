// Nethttp locks routes of net/http, and a part of a handler.
//
//	go run ./examples/nethttp
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
	"fmt"
	"net/http"
	"time"

	"github.com/lockmw/kit/examples/internal/demo"
	"github.com/lockmw/kit/httplock"
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
	pay := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 10 * time.Second})
	transfer := httplock.Middleware(locks, keyfunc.MustParse("{body.customer.id}"), lockmw.Policy{Prefix: "customer:"})

	done := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := demo.Work(r.Context(), work); err == nil { // else the lock is lost, or the client gone
			fmt.Fprintln(w, "done")
		}
	})
	report := func(w http.ResponseWriter, r *http.Request) {
		err := locks.WithLock(r.Context(), "report", lockmw.Policy{}, func(ctx context.Context) error { return demo.Work(ctx, work) })
		switch {
		case errors.Is(err, lockmw.ErrNotAcquired):
			http.Error(w, "somebody writes it already", http.StatusConflict)
		case err != nil:
			http.Error(w, "not written", http.StatusInternalServerError)
		default:
			fmt.Fprintln(w, "written")
		}
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", pay(done))
	mux.Handle("POST /transfers", transfer(done))
	mux.HandleFunc("POST /report", report)
	return mux
}
