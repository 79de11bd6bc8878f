package ginlock

import (
	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Idempotent returns a handler that has the handlers behind it run once for all requests with the same key. Normally,
// a double click pays once, and both clicks get the receipt. So does a client that sends its request again because it
// has not seen the answer. docs/answers.md says when work is done twice.
//
//	r.POST("/orders/:id/pay",
//		ginlock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
//			lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain}),
//		pay)
//
// The first request runs the handlers under a lock, and the lease is in the request's context. A request that comes
// meanwhile, in whatever process, waits for the response for as long as f.Policy.Wait allows. A request that comes
// later gets the response until f.Retain is over. Both get the same status, body and header, and Idempotent-Replayed:
// true. The same key on another route, or with another method, is another key. See "Idempotency" in the documentation
// of the package.
//
// Idempotent panics where Middleware does, and in these cases:
//
//   - f is invalid (Locker.ValidateFlight), its Retain is zero, or it has a Fingerprint;
//   - key reads one header or one field of the body, and nothing else, so that nobody can tell whose key that is: put
//     the user in front, or see WithKeysOfEverybody.
//
// To find out what key reads, Idempotent calls it with a made-up request; key may fail or panic then. GET, HEAD,
// OPTIONS and TRACE pass as if the middleware were not there.
func Idempotent(l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, opts ...Option) gin.HandlerFunc {
	o := newOptions(httpdoor.Idempotent, opts)
	m := &middleware{options: o, door: httpdoor.NewIdempotent(l, key, f, o.Config)}
	return m.handleOnce
}

func (m *middleware) handleOnce(c *gin.Context) {
	if m.skip != nil && m.skip(c) {
		return
	}
	v := &view{Visit: m.door.Visit(c.Request), c: c, middleware: m}
	if v.isUnknown() && v.isLast() {
		return
	}
	v.checkPlace()
	v.findBody()
	httpdoor.FingerprintBy(&v.Visit, m.fingerprint, c)
	answered := true
	way, err := v.Once(v, c.Writer, func(held *httpdoor.Buffer) bool {
		v.keepBody()
		answered = m.runHeld(c, v, held)
		return answered
	})
	switch way {
	case httpdoor.Passed:
		v.keepBody()
		if v.notFound {
			c.Abort()
		}
	case httpdoor.Answered:
		if answered {
			c.Writer.WriteHeaderNow() // that of an answer without a body, which Gin would leave open
		}
		if v.Inner() == nil { // the handlers have not run
			c.Abort()
		}
		if err != nil {
			record(c, err)
		}
	case httpdoor.Refused:
		m.refuse(c, err)
	}
}

// runHeld runs the handlers, which write to held. It returns whether they have answered: where they have written nothing, and
// recorded an error, a middleware around this one may make an answer of that, and of a path that Gin does not know Gin makes one.
func (m *middleware) runHeld(c *gin.Context, v *view, held *httpdoor.Buffer) (answered bool) {
	c.Request = v.Inner()
	defer func() { c.Request = v.Outer() }()
	below := c.Writer
	defer func() { c.Writer = below }() // also in the place of what the handlers left there
	w := &keptResponse{heldResponse{ResponseWriter: below, held: held, status: below.Status()}}
	c.Writer = w
	errors := len(c.Errors)
	c.Next()
	if !w.Written() && (len(c.Errors) > errors || v.isUnknown()) {
		for _, err := range c.Errors[min(errors, len(c.Errors)):] {
			door.DoubtError(v.Inner().Context(), err)
		}
		below.WriteHeader(w.status)
		if v.isUnknown() { // Gin answers, and nothing was done
			lockmw.NotAnAnswer(v.Inner().Context())
		}
		return false
	}
	if w.status != below.Status() { // a status alone
		w.WriteHeaderNow()
	}
	return true
}
