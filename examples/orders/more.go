package main

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// moreRoutes are what else a shop does under a lock: one of each kind, for -serve, where
// there is something to see of every metric.
func (s *shop) moreRoutes(r *gin.Engine, locks *lockmw.Locker) {
	lock := func(p lockmw.Policy, opts ...ginlock.Option) gin.HandlerFunc {
		return ginlock.Middleware(locks, keyfunc.MustParse("{param.id}"), p, opts...) // a text: "a", "today"
	}

	// A courier does not wait for long: after 400 ms the answer is 409.
	ship := lockmw.Policy{Name: "ship", Prefix: "order:", Wait: 400 * time.Millisecond}
	r.POST("/orders/:id/ship", ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), ship), work)

	// A shelf is read by many (GET) or counted by one (POST).
	shelf := lock(lockmw.Policy{Name: "shelf", Prefix: "shelf:", Wait: 10 * time.Second}, ginlock.WithReadWrite())
	r.GET("/shelves/:id", shelf, work)
	r.POST("/shelves/:id", shelf, work)

	// A printer has two trays, so two labels are printed at a time.
	r.POST("/printers/:id", lock(lockmw.Policy{Name: "label", Prefix: "printer:", Permits: 2, Wait: 10 * time.Second}), work)

	// Prices are fetched once if possible, and twice rather than not at all: without
	// Redis the work runs without its lock.
	r.POST("/prices/:id", lock(lockmw.Policy{Name: "prices", Prefix: "prices:", Wait: time.Second, FailOpen: true}), work)

	// A ticket is bought once, however often the buyer clicks: all clicks get the same answer.
	r.POST("/tickets",
		ginlock.Idempotent(locks, keyfunc.MustParse("{query.buyer}:{header.Idempotency-Key|idempotency}"),
			lockmw.Flight{Policy: lockmw.Policy{Name: "ticket", Prefix: "ticket:", Wait: 5 * time.Second}, Retain: time.Minute}),
		work)

	// Whether a lock on stock would be worth its waits is tried first: nobody is locked out.
	r.POST("/stock/:id", lock(lockmw.Policy{Name: "stock", Prefix: "stock:", Wait: 200 * time.Millisecond, Shadow: true}), work)

	// A report is written by one process, and the others need not. After ten TTLs it
	// counts as stuck; the TTL is short here, so that this is soon.
	r.POST("/reports/:id", lock(lockmw.Policy{Name: "report", Prefix: "report:", TTL: reportTTL}), work)
}

const reportTTL = time.Second

// work takes as long as the caller asks for, and ends when the lock is lost.
func work(c *gin.Context) {
	hold, ok := holdOf(c)
	if ok && pause(c.Request.Context(), hold) == nil { // else the middleware answers, or nobody is there to be told
		c.String(http.StatusOK, "done\n")
	}
}

// requestID is the header, and the context's key, by which a request is known.
type requestID struct{}

const requestIDHeader = "X-Request-Id"

// noteRequest puts the request's id into its context, as a tracing middleware does.
func noteRequest(c *gin.Context) {
	if id := c.GetHeader(requestIDHeader); id != "" {
		c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), requestID{}, id))
	}
	c.Next()
}

// noteOf is what the console and lockctl show beside a holder.
func noteOf(ctx context.Context) string {
	id, _ := ctx.Value(requestID{}).(string)
	return id
}
