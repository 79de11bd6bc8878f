package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A shop takes payments for orders and books them in the ledger.
type shop struct {
	ledger *ledgerClient
	log    *slog.Logger
}

// routes is where the lock is.
func (s *shop) routes(locks *lockmw.Locker) http.Handler {
	r := gin.New()
	r.Use(gin.Recovery(), s.logFaults)

	// One order, one payment at a time, over all shops. The others wait in
	// line, here for up to a minute.
	r.POST("/orders/:id/pay",
		ginlock.Middleware(locks, keyfunc.MustParse("{param.id}"), lockmw.Policy{Name: "pay", Prefix: "order:", Wait: time.Minute}),
		s.pay)

	// The same prefix and key, so the same lock, but a refund does not wait: if
	// the order is being paid or refunded just now, the answer is 409 at once.
	r.POST("/orders/:id/refund",
		ginlock.Middleware(locks, keyfunc.MustParse("{param.id}"), lockmw.Policy{Name: "refund", Prefix: "order:"}),
		s.refund)

	// What happens without the line.
	r.POST("/unlocked/orders/:id/pay", s.pay)
	return r
}

// logFaults logs why a request could not be served. The client is not told:
// the middleware's answers never show a key or an error of Redis.
func (s *shop) logFaults(c *gin.Context) {
	c.Next()
	if err := c.Errors.Last(); err != nil && c.Writer.Status() >= http.StatusInternalServerError {
		s.log.Warn("request failed", "path", c.Request.URL.Path, "status", c.Writer.Status(), "error", err.Err)
	}
}

func (s *shop) pay(c *gin.Context)    { s.book(c, +1) }
func (s *shop) refund(c *gin.Context) { s.book(c, -1) }

// book reads the order's balance, changes it and writes it back. It knows
// nothing of locks, except that it works with the request's context: behind
// the middleware that is the lease's, which ends when the lock is lost.
func (s *shop) book(c *gin.Context, amount int) {
	ctx, id := c.Request.Context(), c.Param("id")
	hold, err := time.ParseDuration(c.DefaultQuery("hold", "0s"))
	if err != nil {
		c.String(http.StatusBadRequest, "hold: want a duration such as 5s\n")
		return
	}
	balance, err := s.ledger.read(ctx, id)
	if err == nil {
		err = pause(ctx, hold)
	}
	if err == nil {
		balance += amount
		err = s.ledger.write(ctx, id, balance)
	}
	if err != nil {
		c.String(http.StatusBadGateway, "%v\n", err)
		return
	}
	c.String(http.StatusOK, "order %s: balance %d\n", id, balance)
}

// pause is work that takes a while, for trying things out with curl.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// shopCommand, as the only argument, makes this program a shop.
const shopCommand = "shop"

// A shop's settings come from its environment.
const (
	redisEnv  = "REDIS_ADDR"
	ledgerEnv = "LEDGER_URL"
)

// locksClose is how long a shop gives back locks and places in line at its end.
const locksClose = 3 * time.Second

// runShop is a shop process: an ordinary service with one Locker for all of
// its requests. It prints its URL as a single line, and ends in good order
// when its standard input does, so it never outlives the program that
// started it.
func runShop() error {
	signal.Ignore(os.Interrupt) // Ctrl-C is the starter's, whose end ends us
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	gin.SetMode(gin.ReleaseMode)

	opts, err := redisOptions(os.Getenv(redisEnv))
	if err != nil {
		return err
	}
	client := redis.NewClient(opts)
	defer client.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	locks, err := lockmw.New(client, lockmw.WithLogger(log))
	if err != nil {
		return err
	}
	defer func() { // after the requests, whose locks it would take away
		ctx, cancel := context.WithTimeout(context.Background(), locksClose)
		defer cancel()
		if err := locks.Close(ctx); err != nil {
			log.Warn("some locks end by their TTL only", "error", err)
		}
	}()
	s := &shop{ledger: newLedgerClient(os.Getenv(ledgerEnv)), log: log}
	web, err := listen(s.routes(locks))
	if err != nil {
		return err
	}
	defer web.stop()
	fmt.Println(web.url)

	select {
	case <-inputEnd():
		return nil
	case <-ctx.Done():
		return nil
	case err := <-web.ended:
		return err
	}
}

// inputEnd is closed at the end of standard input. Its goroutine may last as
// long as the process: a read of standard input cannot be interrupted.
func inputEnd() <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return end
}
