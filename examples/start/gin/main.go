// Command gin pays and cancels orders. In all its processes together, only one request at a time works on an order.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// errNotPaid says that nothing was done: the bank could not be reached, for example.
var errNotPaid = errors.New("nothing was paid")

// routes returns the service. charge is what takes the customer's money.
func routes(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) *gin.Engine {
	perOrder := ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: time.Second})
	r := gin.Default()
	r.POST("/orders/:id/pay", perOrder, pay(charge))
	r.POST("/orders/:id/cancel", perOrder, cancel) // the same lock: nobody cancels an order that is being paid
	return r
}

func pay(charge func(ctx context.Context, order int64) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		order, err := strconv.ParseInt(c.Param("id"), 10, 64)
		if err != nil {
			c.String(http.StatusBadRequest, "no such order\n")
			return
		}
		ctx := c.Request.Context() // this context ends if the lock is lost
		switch err = charge(ctx, order); {
		case errors.Is(err, errNotPaid):
			lockmw.NotAnAnswer(ctx) // behind Idempotent, this answer is not kept: the next request pays
			c.String(http.StatusBadGateway, "not paid\n")
		case errors.Is(context.Cause(ctx), lockmw.ErrLost): // write nothing: the middleware answers 500 LOCK_LOST
		case err != nil: // the bank has not answered in time, for example
			lockmw.MarkUncertain(ctx) // behind Idempotent, the next request is told so, and does not pay
			c.String(http.StatusBadGateway, "paid or not: nobody knows\n")
		default:
			c.String(http.StatusOK, "paid\n")
		}
	}
}

func cancel(c *gin.Context) { c.String(http.StatusOK, "cancelled\n") }

// charge stands for your work. Yours first checks whether the order is already paid, or somebody has begun to, and notes that it begins: nobody
// else pays it meanwhile.
func charge(ctx context.Context, order int64) error {
	if lease, _ := lockmw.FromContext(ctx); !lease.Valid() { // directly before the payment
		return errNotPaid
	}
	select {
	case <-time.After(300 * time.Millisecond):
		slog.Info("paid", "order", order)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")})
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	if err := locks.Ping(ctx); err != nil { // for a second at most; start all the same: locks work as soon as Redis is there
		slog.Warn("locks do not work", "error", err) // the error says what to do
	}
	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDR"), ":8080"), Handler: routes(locks, charge), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the program at once
	return errors.Join(shutDown(server, locks, 20*time.Second, 5*time.Second), client.Close())
}

// shutDown ends the server, and then the locks. Requests have inTime to end by themselves, and after to stop when their contexts have ended.
func shutDown(server *http.Server, locks *lockmw.Locker, inTime, after time.Duration) error {
	last, cancel := context.WithTimeout(context.Background(), inTime)
	defer cancel()
	err := server.Shutdown(last) // waits for the requests that are at work
	if err != nil {
		err = errors.Join(err, server.Close()) // ends the contexts of those that are left
	}
	last, cancel = context.WithTimeout(context.Background(), after)
	defer cancel()
	return errors.Join(err, locks.Close(last)) // waits until they have given their locks back, and then takes the locks of those that hang
}
