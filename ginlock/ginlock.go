// Package ginlock runs Gin requests under a Redis lock: one line beside a route.
//
//	r.POST("/orders/:id/pay",
//		ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}),
//		pay)
//
// The handlers behind it run while the lock is held. The context of c.Request is the
// lease's: it ends when the lock is lost, and lockmw.FromContext finds the lease in it. c
// itself is no such context: pass c.Request.Context() to what the handler calls.
//
// A request that does not get the lock is answered with a problem (RFC 9457,
// application/problem+json), and the handlers do not run. The error is added to c.Errors.
// There it is neither a private nor a public one, so that gin.Logger does not print what
// the Locker's log says already. If the lock is lost while the handlers run, the answer
// is a problem, too, as long as the handlers have written nothing. WithBufferedResponse
// makes that possible even after they have written.
//
// # Refusals
//
// The problem has the refusal's code in its field "code". Where asking again makes sense,
// the response has the header Retry-After, in seconds, rounded up. The problem has the
// time in milliseconds, in retry_after_ms.
//
//   - 400 LOCK_KEY_INVALID: no key can be made of the request; 413 if the reason is a
//     body longer than WithBodyLimit
//   - 409 LOCK_BUSY, LOCK_WAIT_TIMEOUT: others hold the lock
//   - 409 LOCK_COOLDOWN, without Retry-After: the work of this key was done a moment ago
//     (Policy.MinHold)
//   - 503 LOCK_QUEUE_FULL: too many requests wait already
//   - 503 LOCK_BACKEND_UNAVAILABLE: Redis cannot be reached, or refuses
//   - 503 LOCK_CLOSED: the Locker is closed
//   - 500 LOCK_LOST: the lock was lost while the handler was at work
//   - 500 LOCK_MISUSE: a mistake of the program
//
// A problem shows no key, no token and nothing that Redis said. To answer in a form of
// your own, use WithErrorHandler, with lockmw.RefusalOf.
//
// # Failures
//
// With the policy's MinHold, work that has failed frees the key, unless there is
// MinHoldOnError. The handlers have failed in these cases:
//
//   - they panic;
//   - they answer with a status of 400 or more;
//   - they add an error to c.Errors and write nothing: then it is left to middleware in
//     front to make an answer of the error.
//
// Handlers that add an error and write an answer of less than 400 have done their work,
// because their client was told so. An example is a handler that could not send a mail.
//
// Gin does not see what handlers write past its writer, to the writer that it unwraps to.
// Neither does this package: what is written there does not count as an answer.
//
// # Where it goes
//
// The middleware goes on a route or a group. A parameter that the route does not have is
// a mistake of the program. Every request to such a route is answered with 500
// LOCK_MISUSE. The Locker's log (slog.Default() without lockmw.WithLogger) says once for
// each route which parameters the route has.
//
// Gin copies what stands in front of a route or a group when the route or the group is
// made. So routes that are registered before Use run without a lock, and so do all routes
// of a group that is made before Use. Nobody is told.
//
// With Engine.Use, the middleware runs for all routes that are registered after it. Each
// of these must then have what the key needs. The middleware also runs for paths that Gin
// does not know. They get Gin's 404 or 405 if the key needs a route, and also if no key
// can be made of the request and no handler stands behind the middleware. A handler of
// Engine.NoRoute behind it runs under the lock or not at all. So pages of your own for
// 404 need a key that is not made of the route, or WithSkipper.
//
// The middleware goes behind recovery, logging, authentication and rate limits, and
// directly in front of the handler. A lock in front of authorisation lets strangers block
// somebody else's resource. gin-contrib/timeout runs the handler in another goroutine;
// the lock belongs inside it.
//
// # Request bodies
//
// A body is read before the lock is taken, up to WithBodyLimit, so that a slow client
// does not hold a lock while it sends. The handler reads it again, byte for byte. A
// longer body is refused (413) if the key is a field of it, or a query value while the
// body is a form. Otherwise the handler reads it under the lock, and waits for the client
// no longer than WithBodyTimeout says. By default, a client that sends nothing holds the
// lock for 5 s, and a slow one for a minute at most. The policy's MaxHold may end this
// sooner.
//
// Do not put the middleware around a handler that answers while its client is still
// sending, as in a two-way stream. Such a client may wait for the answer before it sends
// the rest, and the middleware waits for the rest. Let the handler take its lock itself,
// with lockmw.Locker.WithLock.
//
// Over HTTP/1, net/http notices that a client has left only after it has read the whole
// body. If the body is longer than WithBodyLimit, a request keeps its place in the queue
// although its client has left, and its handler runs when its turn comes. Raise the limit
// where that does harm. Over HTTP/2, net/http notices at once.
//
// A body field is looked up as encoding/json does it. It is refused (400) where handlers
// may differ about what it is: a name in another case ("ID" for "id"), an object or an
// array.
//
// In a key, 1 and "1" are the same, and so are 100, 100.0 and 1e2. Integers of 64 bits
// are exact: 9007199254740993 is a key of its own, even if a handler decodes it into an
// any or a float64 and sees 9007199254740992. Any other number is refused if the nearest
// float64 prints another one: 1e400 and 9007199254740993.0 are refused. A missing field
// and 0 are two keys. A handler that reads an int sees 0 in both cases, so its template
// must say {body.shelf?|int}.
//
// # Long answers
//
// net/http sends an answer of more than a few KiB while the handler writes it, under the
// lock. A client that does not read the answer blocks the handler in its Write, and so
// keeps the lock, for as long as http.Server.WriteTimeout allows. By default that is for
// ever. So give the server a WriteTimeout, or the policy a MaxHold. The lock comes free
// within a TTL after MaxHold, but the handler hears of it only when its Write returns.
// WithBufferedResponse sends what it holds back after the release.
//
// # Names in several places
//
// A client can say that a body is something else than it looks like, and it can put one
// name into several places. Where handlers may differ about which of them counts, the
// request is refused (400), and Redis is not asked. These are refused:
//
//   - a key of a route parameter that changes when it is decoded again: "%2534%2532" is
//     decoded to "%34%32", and some handlers decode that to 42;
//   - a key of a route parameter that is a path with an empty element, "." or "..", such
//     as "a//b", "x/../a" or "a/"; a slash in front, as Gin gives it for "*path", is
//     fine;
//   - a key of the body whose Content-Type is not application/json or another +json, or
//     is given twice;
//   - a key of the body whose name is also in the query, in whatever case and
//     punctuation;
//   - a key of the body whose name is missing in the body and is a parameter of the
//     route;
//   - a key of the query whose name is there with two different values or in another
//     case, or is also in a form in the body; a form over WithBodyLimit is refused (413),
//     because nobody knows what is in it;
//   - a key of a form, if the body does not say that it is a form, is a broken one, or
//     came with another method than POST, PUT or PATCH;
//   - a key of a form whose name is there with two different values or in another case,
//     is that of a file, or is also in the query;
//   - a key of a form whose name is missing in the form and is a parameter of the route;
//   - a key of a field of the body, a header or a cookie that is there twice, with
//     different values.
//
// A key function of your own, made with Key, is not checked for any of these.
//
// Gin's c.ShouldBind goes by the Content-Type. So with a key of the body, a body that
// c.ShouldBind does not take for JSON is refused, too: the body of a GET, and a body of
// any type but application/json in lower case. If such a request has no body, it is
// refused if its URL has a query, because c.ShouldBind then reads the query. Middleware
// in front of this one may set the type of a request that it knows to be JSON.
//
// A handler must read a value where the key does:
//
//   - the query: c.Query or c.ShouldBindQuery
//   - a parameter: c.Param or c.ShouldBindUri
//   - the body: c.ShouldBind or c.ShouldBindJSON
//   - a form: c.PostForm or c.ShouldBind (binding.FormPost does not read a multipart
//     form)
//   - a cookie: c.Cookie, which decodes it
//
// c.ShouldBind always reads the query of a GET. With another method, what it reads
// depends on the Content-Type. If two binders fill one field, the client chooses which of
// them counts.
//
// # Idempotency
//
// Idempotent runs a handler once for all requests with the same key, and gives each of
// them the same response. The client sends the key. A lock keeps two requests from
// working at the same time; Idempotent keeps the second one from working at all. The
// refusals are those of a lock and these:
//
//   - 400 IDEMPOTENCY_KEY_MISSING: the request has no key, and there is no
//     WithOptionalKey
//   - 422 IDEMPOTENCY_KEY_REUSED: the key was used for another request: one with another
//     path, query, Content-Type or body, or, with WithFingerprint, with another
//     fingerprint
//   - 409 IDEMPOTENCY_IN_PROGRESS: the first request is at work for longer than
//     Flight.Policy.Wait
//   - 409 IDEMPOTENCY_ANSWER_NOT_KEPT, without Retry-After: the work was done, but its
//     response cannot be given again: it was too large, was cut off or had trailers, or
//     this client does not read its Content-Encoding
//   - 409 IDEMPOTENCY_UNCERTAIN, without Retry-After: the work was begun, and nobody
//     knows whether it was done (lockmw.Uncertain)
//
// The response is held back until it is kept, up to Flight.MaxAnswer. Meanwhile Flush
// does nothing, and the connection cannot be hijacked. Of the response's header, what the
// handler has changed is kept, and always Content-Type, Content-Language and
// Content-Encoding. Cookies, Date and the headers of the connection are never kept.
//
// Responses below 500 are kept, except 206, 307, 308, 401, 403, 406 to 409, 412, 417,
// 421, 423 to 426, 428, 429 and 431. With lockmw.Uncertain, 206, 408 and those of 500 and
// more are kept as well. The refusal of a lock behind Idempotent is never kept. Neither
// is the answer if such a lock is lost and the handler has written nothing: with
// lockmw.Uncertain, nobody knows then. See WithKeep and lockmw.NotAnAnswer.
//
// A Codec is given a struct that encoding/json can encode. A body over WithBodyLimit is
// refused (413). Once the handler runs, its context does not end with the connection any
// more.
//
// If handlers add an error to c.Errors and write nothing, the response is left to
// middleware in front, and is not kept. With lockmw.Uncertain half of the work may be
// done, and the next request is told that its answer was not kept. So a handler that
// takes a lock itself, does not get it and has done nothing before answers with
// httplock.WriteRefusal, or calls lockmw.NotAnAnswer.
//
// Idempotent goes in front of the lock. If a lock stands in front of Idempotent, the
// second of two requests would be refused by that lock, or wait for it, in place of
// getting the answer. The Locker's log (slog.Default() without lockmw.WithLogger) says so
// once for each route.
//
// Redis may forget what was done. docs/answers.md says what that means, and in which
// order middlewares go.
package ginlock

import (
	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Middleware returns a handler that runs the handlers behind it under the lock that key
// names. It panics if l, key or an option is nil, and if p is invalid.
//
// For each request, WithSkipper's function is asked first, and then key. If key returns
// keyfunc.Skip, the request goes on without a lock. If key fails, Redis is not asked. The
// answer is then 400, or 413 for a body over the limit, or 500 for a mistake of the
// program (keyfunc.ErrMisuse).
//
// It is also a mistake of the program if the middleware is the last handler of its route,
// or if a handler in front of it has answered, as in r.POST(path, handler, lock). The
// work has not run under the lock then.
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
