// Package ginlock runs Gin requests under a Redis lock: one line beside a route.
//
//	r.POST("/orders/:id/pay",
//		ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}),
//		pay)
//
// The handlers behind it run while the lock is held. The context of c.Request
// is the lease's: it ends when the lock is lost, and lockmw.FromContext finds
// the lease in it. c itself is no such context; give c.Request.Context() to
// what the handler calls.
//
// A request that does not get the lock is answered with a problem (RFC 9457,
// application/problem+json), the error is added to c.Errors (as
// neither a private nor a public one, so gin.Logger does not print what the Locker's log says), and the handlers
// do not run. If the lock is lost while they run and they have written nothing,
// the answer is a problem too; WithBufferedResponse makes that possible when
// they have written.
//
// # Refusals
//
// The problem has the refusal's code in its field "code". Where asking again makes sense, it
// has the header Retry-After, and the same in milliseconds in retry_after_ms.
//
//   - 400 LOCK_KEY_INVALID: no key can be made of the request; 413 if that is because
//     its body is longer than WithBodyLimit
//   - 409 LOCK_BUSY, LOCK_WAIT_TIMEOUT: others hold the lock
//   - 409 LOCK_COOLDOWN, without Retry-After: its work was done a moment ago (Policy.MinHold)
//   - 503 LOCK_QUEUE_FULL: too many wait already
//   - 503 LOCK_BACKEND_UNAVAILABLE: Redis cannot be reached, or refuses
//   - 503 LOCK_CLOSED: the Locker is closed
//   - 500 LOCK_LOST: the lock was lost while the handler was at work
//   - 500 LOCK_MISUSE: a mistake of the program
//
// Nothing in it shows a key, a token or what Redis said. For answers in an envelope of
// your own there is WithErrorHandler, with lockmw.RefusalOf.
//
// # Failures
//
// With the policy's MinHold, work that has failed frees the key. The handlers have failed if they
// panic or answer with a status of 400 or more, and if they add an error to c.Errors and write
// nothing: it is left to middleware in front to make an answer of the error. Handlers that add an
// error and write an answer of less than 400, such as one that could not send a mail, have done
// their work: their client was told so. What they write past Gin's writer, to what that unwraps to,
// Gin does not know of, and neither does this package: it is no answer.
//
// # Where it goes
//
// The middleware goes on a route or a group. A parameter that the route does not have is a mistake of the
// program: every request to it is answered with 500 LOCK_MISUSE, and the Locker's log
// (slog.Default() without lockmw.WithLogger) says once for each route which parameters it has.
//
// Gin takes a copy of what stands in front of a route or a group when that is made. So routes that are
// registered before Use, and all of a group that is made before Use, run without a lock, and nobody is told.
//
// With Engine.Use the middleware runs for all routes that are registered after it, of
// which each must then have what the key needs, and for paths that Gin does not know.
// Those get Gin's 404 or 405 if the key needs a route, and also if no key can be made of
// the request and no handler stands behind the middleware. A handler of Engine.NoRoute
// behind it runs under the lock or not at all; so pages of your own for 404 need a key
// that is not made of the route, or WithSkipper.
//
// It goes behind recovery, logging, authentication and rate limits, and directly
// before the handler: a lock before authorisation lets strangers block
// somebody's resource. gin-contrib/timeout runs the handler in another
// goroutine; the lock belongs inside of it.
//
// # Request bodies
//
// A body is read before the lock is taken, up to WithBodyLimit, so that a slow
// client does not hold a lock while it sends. The handler reads it again, byte
// for byte. What is longer is refused (413) if the key is a field of it, and
// otherwise read by the handler, under the lock, which waits for more of it no
// longer than WithBodyTimeout says: a client that sends nothing holds the lock
// for 5 s, and one that is slow for a minute at most, or for the policy's MaxHold.
//
// Do not put the middleware around a handler that answers while its client is still
// sending, as in a two-way stream: such a client may wait for the answer before it
// sends the rest, for which the middleware waits. The handler takes its lock itself,
// with lockmw.Locker.WithLock.
//
// Over HTTP/1, net/http notices that a client has left when it has read the
// body. If that is longer than WithBodyLimit, a request whose client leaves while
// it waits for its lock keeps its place, and its handler runs when its turn
// comes. Raise the limit where that does harm. HTTP/2 tells at once.
//
// A body field is looked up as encoding/json does it, and refused (400) where
// handlers may differ about what it is: a name in another case ("ID" for
// "id"), an object or array. 1 and "1" are the same key, and so are 100, 100.0
// and 1e2. Integers of 64 bits are exact: 9007199254740993 is a key of its own,
// also where a handler decodes it into any or a float64 and sees
// 9007199254740992. Any other number is refused if it is not what a float64
// prints, such as 1e400 or 9007199254740993.0. A missing field and 0 are two
// keys; a handler that reads an int sees 0 in both, so its template says
// {body.shelf?|int}.
//
// # Long answers
//
// net/http sends an answer of more than a few KiB while the handler writes it, under the
// lock. A client that does not read it keeps the handler at its Write, and the lock, for as
// long as http.Server.WriteTimeout allows, which is for ever by default. So give the server
// a WriteTimeout, or the policy a MaxHold: within a TTL after that the lock comes free, though
// the handler hears of it only when its Write returns. WithBufferedResponse sends what it
// holds back after the release.
//
// # Names in several places
//
// A client can say that a body is something else than it looks like, and put a
// name into several places. Where handlers may differ about which of them
// counts, the request is refused (400), and Redis is not asked. These are refused:
//
//   - a key of a route parameter that names something else when it is decoded again, as
//     "%34%32" does when it was sent as "%2534%2532", or is a path that path.Clean would change, as "a//b" and "x/../a"
//     are, and "a/"; a slash in front, as Gin gives it for "*path", is fine;
//   - a key of the body whose Content-Type is not application/json or another
//     +json, or is given twice;
//   - a key of the body whose name is in the query as well, in whatever case and
//     punctuation, or is missing in the body and a parameter of the route;
//   - a key of the query whose name is there with two values or in another case, or is in a
//     form in the body; a form over WithBodyLimit is refused (413), because
//     nobody knows what is in it;
//   - a key of a form whose body does not say that it is one, or is broken, or came
//     with another method than POST, PUT or PATCH; whose name is there with two
//     values or in another case, is a file's, or is in the query as well, or is
//     missing in the form and a parameter of the route;
//   - a key of a field of the body, a header or a cookie that is there twice, with
//     different values.
//
// Key, with a function of your own, refuses none of these.
//
// Gin's c.ShouldBind goes by the Content-Type, so a body that it does not take
// for JSON is refused, too: that of a GET, and of any type but application/json
// in lower case. Without a body such a request is refused if its URL has a query,
// which is what c.ShouldBind then reads. Middleware in front of this one may set
// the type of a request that it knows to be JSON.
//
// A handler must read a value where the key does: c.Query or c.ShouldBindQuery for
// the query, c.Param or c.ShouldBindUri for a parameter, c.ShouldBind or
// c.ShouldBindJSON for the body, c.PostForm or c.ShouldBind for a form
// (binding.FormPost reads no multipart one), c.Cookie for a cookie, which it
// decodes. c.ShouldBind reads the query of a GET only, and
// of others whatever their body is. Two binders that fill one field leave it to
// the client which of them counts.
//
// # Idempotency
//
// Idempotent runs a handler once for all requests with the same key, which the client sends, and gives each of them the same response: a lock keeps
// two from working at the same time, and this keeps the second from working at all. The refusals are the same, and beside them there are
//
//   - 400 IDEMPOTENCY_KEY_MISSING: the request has no key, unless there is WithOptionalKey
//   - 422 IDEMPOTENCY_KEY_REUSED: the key was used for another request: another method, path, query, Content-Type or body, or what
//     WithFingerprint says
//   - 409 IDEMPOTENCY_IN_PROGRESS: the first request is at work for longer than Flight.Policy.Wait
//   - 409 IDEMPOTENCY_ANSWER_NOT_KEPT, without Retry-After: the work was done, and its response was too large to be kept
//   - 409 IDEMPOTENCY_UNCERTAIN, without Retry-After: the work was begun, and nobody knows whether it was done (lockmw.Uncertain)
//
// The response is held back until it is kept, up to Flight.MaxAnswer: while it is, Flush does nothing, and a connection cannot be hijacked. Of its header
// only what the handler has changed is kept, and never cookies. A response of 500 or more, 401, 403, 408, 409, 425, 429 and 206 are not kept, and a refusal
// of a lock behind Idempotent is not either; see WithKeep and lockmw.NotAnAnswer. A Codec gets a struct that encoding/json takes. A body over WithBodyLimit is refused (413). The context of a
// handler that runs does not end with the connection.
//
// The response of handlers that add an error to c.Errors and write nothing is left to middleware in front, and is not kept. With lockmw.Uncertain half of the work may be done, and the next request
// is told that its answer was not kept.
//
// Redis may forget what was done. docs/answers.md says what that means, and in which order middlewares go.
//
// Start reading at this file, then idempotent.go, request.go (what key functions see),
// options.go and response.go.
package ginlock

import (
	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Middleware returns a handler that runs those behind it under the lock that
// key names. It panics if l or key or an option is nil or p is invalid.
//
// For each request key is called first, unless WithSkipper's function says otherwise. If
// key returns keyfunc.Skip the request goes on without a lock. If key fails, the answer
// is 400, or 413 for a body over the limit, or 500 for a mistake of the program
// (keyfunc.ErrMisuse), and Redis is not asked. A mistake is also a route whose last
// handler is the middleware, or whose handler in front of it has answered, as
// r.POST(path, handler, lock) has it: the work has not run under the lock then.
func Middleware(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts ...Option) gin.HandlerFunc {
	o := newOptions(httpdoor.Middleware, opts)
	m := &middleware{options: o, door: httpdoor.New(l, key, p, o.Config)}
	return m.handle
}

type middleware struct {
	options
	door *httpdoor.Door
}

func (m *middleware) handle(c *gin.Context) {
	if m.skip != nil && m.skip(c) {
		return
	}
	v := &view{Visit: m.door.Visit(c.Request), c: c, middleware: m}
	v.checkPlace()
	locked, err := v.Enter(v, c.Writer)
	if err != nil {
		m.refuse(c, err)
		return
	}
	v.keepBody()
	if v.notFound {
		c.Abort()
	}
	if !locked {
		return
	}
	switch err := m.run(c, v); {
	case err == nil:
	case c.Writer.Written():
		record(c, err)
	default:
		v.TakeBack()
		m.refuse(c, err)
	}
}

// run runs the handlers and releases the lock, also when they panic. The error
// says that the lock was lost.
func (m *middleware) run(c *gin.Context, v *view) error {
	defer v.Leave() //nolint:errcheck // it is for panics; otherwise its second call
	c.Request = v.Inner()
	defer func() { c.Request = v.Outer() }()
	below := c.Writer
	defer func() { c.Writer = below }() // also in the place of what the handlers left there
	if v.Uploads() {
		c.Writer = &uploadResponse{ResponseWriter: below, v: v}
	}
	errors := len(c.Errors)
	next := func() {
		c.Next()
		// Without an answer of the handlers a middleware around this one may make one of the
		// errors that they have recorded. With one, what they have recorded is for the log.
		if len(c.Errors) == errors || c.Writer.Written() {
			v.Returned(c.Writer.Status())
		}
	}
	if !v.HoldsResponse() {
		next()
		return v.Leave()
	}
	w := &heldResponse{ResponseWriter: c.Writer, held: v.Hold(c.Writer), status: c.Writer.Status()}
	c.Writer = w
	next()
	err := v.Leave()
	if err == nil || !w.held.Held() {
		w.send()
	}
	return err
}

// record has Gin record an error. Its text is for logs and traces: what gin.ErrorLogger and
// others make of it for clients is the Meta. It is neither of Gin's private errors, which gin.Logger prints
// beside the line that the Locker has logged, nor of the public ones, whose texts are for clients.
func record(c *gin.Context, err error) {
	_ = c.Error(door.Recorded(err)).SetType(errorType).SetMeta(httpdoor.ProblemOf(door.Refusal(err)))
}

// errorType is a bit that Gin does not use.
const errorType gin.ErrorType = 1 << 16

// refuse answers a request that did not get the lock, or lost it.
func (m *middleware) refuse(c *gin.Context, err error) {
	c.Abort()
	record(c, err)
	if c.Writer.Written() { // by a handler in front of the middleware
		return
	}
	refusal := door.Refusal(err)
	if m.onError != nil && !door.ClientGone(refusal) {
		c.Status(defaultStatus) // forget what a handler may have set that lost the lock
		m.onError(c, err)
		if c.Writer.Written() || c.Writer.Status() != defaultStatus {
			return
		}
	}
	httpdoor.WriteProblem(c.Writer, c.Request, refusal)
}
