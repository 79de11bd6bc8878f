package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

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
	r.Use(gin.Recovery(), s.logFaults, noteRequest)

	// One order, one payment at a time, over all shops. The others wait in
	// line, here for up to a minute.
	r.POST("/orders/:id/pay",
		ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Name: "pay", Prefix: "order:", Wait: time.Minute}),
		s.pay)

	// The same prefix and key, so the same lock, but a refund does not wait: if
	// the order is being paid or refunded just now, the answer is 409 at once.
	r.POST("/orders/:id/refund",
		ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Name: "refund", Prefix: "order:"}),
		s.refund)

	// What happens without the line.
	r.POST("/unlocked/orders/:id/pay", s.pay)

	s.moreRoutes(r, locks)
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
	hold, ok := holdOf(c)
	if !ok {
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
	switch {
	case errors.Is(context.Cause(ctx), lockmw.ErrLost): // the middleware answers
		return
	case err != nil:
		c.String(http.StatusBadGateway, "%v\n", err)
		return
	}
	c.String(http.StatusOK, "order %s: balance %d\n", id, balance)
}

// holdOf returns how long the caller wants the work to take. It answers one who asks for
// something else.
func holdOf(c *gin.Context) (time.Duration, bool) {
	hold, err := time.ParseDuration(c.DefaultQuery("hold", "0s"))
	if err != nil {
		c.String(http.StatusBadRequest, "hold: want a duration such as 5s\n")
	}
	return hold, err == nil
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
