// Package echolock runs Echo (v4) requests under a Redis lock: one line beside a route.
//
//	e.POST("/orders/:id/pay", pay,
//		echolock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}))
//
// The handler runs while the lock is held. The context of c.Request() is the lease's: it
// ends when the lock is lost, and lockmw.FromContext finds the lease in it.
//
// If a request does not get the lock, the handler does not run, and the middleware
// returns an *echo.HTTPError. Echo's HTTPErrorHandler makes a problem of it (RFC 9457,
// application/problem+json). Logging middleware sees it like any other error: errors.Is
// finds the reason in it. If an HTTPErrorHandler of your own writes something else than
// JSON, it must set the Content-Type, which is that of a problem already. If the lock is
// lost while the handler runs, the answer is a problem, too, as long as the handler has
// written nothing. WithBufferedResponse makes that possible even after it has written.
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
// # Where it goes
//
// The middleware goes on routes and groups, or into Echo.Use. It does not go into
// Echo.Pre, where no route is known: a key that needs a route is a mistake of the program
// there. So is a parameter that the route does not have. Every such request is answered
// with 500 LOCK_MISUSE. The Locker's log (slog.Default() without lockmw.WithLogger) says
// once for each route which parameters the route has.
//
// Echo gives a route or a group the middleware that its group has been given so far. So
// routes and groups that are made before Group.Use run without its lock, and nobody is
// told. Echo.Use is for all routes, whenever they are made.
//
// Echo.Use and Group.Use also run the middleware for unknown paths and methods. These
// still get 404 or 405 if no key can be made of the request. A handler of your own for
// RouteNotFound runs under the lock or not at all. If the key needs a parameter that is
// not there, its request gets 404. If no key can be made for another reason, its request
// is refused.
//
// The middleware goes behind recovery, logging, authentication and rate limits, and
// directly in front of the handler. A lock in front of authorisation lets strangers block
// somebody else's resource.
//
// Echo's Timeout middleware runs the handler in another goroutine; the lock belongs
// inside it. Timeout keeps the answer until the handler has returned, and drops it if the
// handler returns an error. So if the lock is lost after the handler has written, clients
// get an empty 200, unless middleware inside Timeout answers errors.
//
// # Route parameters
//
// Echo gives a parameter as it was sent if the path was sent in an unusual spelling: for
// /orders/%34%32, c.Param("id") is "%34%32". Keys are made from the decoded value, so
// that a client cannot dodge the lock of 42.
//
// A request is refused (400) if its key is made from one of these parameters:
//
//   - one that changes when it is decoded again: for /orders/%2534%2532, c.Param("id") is
//     "%34%32", too, and some handlers decode that to 42;
//   - one that took more than its segment of the path: Echo takes "42/" for the last
//     parameter of /orders/:id;
//   - one that is a path with an empty element, "." or "..", such as "a//b", "x/../a" or
//     "a/" of "/files/*".
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
//   - a key of the body whose Content-Type is not application/json or another +json, or
//     is given twice;
//   - a key of the body whose name is also in the query, in whatever case and
//     punctuation;
//   - a key of the body whose name is missing in the body and is a parameter of the
//     route;
//   - a key of the query whose name is there with two different values or in another
//     case, is missing there and is a parameter of the route, or is also in a form in the
//     body; a form over WithBodyLimit is refused (413), because nobody knows what is in
//     it;
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
// In a GET, HEAD or DELETE, Echo's c.Bind reads the query, and then the body into the
// same fields. So with a key of the query, such a request is refused if it has a body.
//
// A handler must read a value where the key does:
//
//   - the query: c.QueryParam or BindQueryParams
//   - a parameter: c.Param
//   - the body: c.Bind or BindBody
//   - a form: c.Bind, BindBody or c.FormValue
//   - a cookie: c.Cookie
//
// c.Bind lets a body overwrite what it took from the path. That can happen to every field
// of the struct that the body's format has a name for, with a tag or without. The
// middleware cannot see that. So with a key such as {param.id|int}, take the parameter
// from c.Param. Or close the parameter's field to bodies, and give it no form or query
// tag (Echo takes "-" for a name there):
//
//	ID string `param:"id" json:"-" xml:"-"`
//
// The middleware cannot see either that a field has another name in a tag. c.Bind takes
// what is missing in the body from the path and the query. So with a key such as
// {body.sku?}, the field must have no param or query tag, or one of the same name.
//
// Package echolock of the path echolock/v5 is the same for Echo v5.
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
// If the handler returns an error, Echo's HTTPErrorHandler answers it before Idempotent
// returns, so that the answer can be kept. The error is returned as well. So an
// HTTPErrorHandler of your own must do nothing if the response is committed, as Echo's
// own does. With lockmw.Uncertain, that is so for the *lockmw.AcquireError of a lock that
// the handler takes itself, too: a handler that has done nothing before calls
// lockmw.NotAnAnswer, or answers with httplock.WriteRefusal, which does.
//
// Idempotent goes in front of the lock. If a lock stands in front of Idempotent, the
// second of two requests would be refused by that lock, or wait for it, in place of
// getting the answer. The Locker's log (slog.Default() without lockmw.WithLogger) says so
// once for each route.
//
// Redis may forget what was done. docs/answers.md says what that means, and in which
// order middlewares go.
package echolock

import (
	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// name is this package's in errors.
const name = "echolock"

// Middleware returns a middleware that runs the handler under the lock that key names. It
// panics if l, key or an option is nil, and if p is invalid.
//
// For each request, WithSkipper's function is asked first, and then key. If key returns
// keyfunc.Skip, the handler runs without a lock. If key fails, Redis is not asked. The
// answer is then 400, or 413 for a body over the limit, or 500 for a mistake of the
// program (keyfunc.ErrMisuse).
func Middleware(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts ...Option) echo.MiddlewareFunc {
	door := echodoor.New(name, version{}, l, key, p, opts)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return door.Handle(c, next) }
	}
}

// Key makes a key function of a function that reads an Echo context. The result works in
// echolock only. The function may read the body, up to WithBodyLimit; the handler still
// gets all of it, from its beginning. If the function reads further, or the body cannot
// be read, the request is refused with 413 or 400, whatever the function returns.
//
// In what the function returns, characters that a key may not hold are escaped, as in
// keyfunc.Value. An empty string is keyfunc.ErrMissing. If the function joins several
// values, it must escape them itself, or leave that to keyfunc.Join. Key panics if it is
// given nil.
func Key(key func(echo.Context) (string, error)) keyfunc.Func { return echodoor.Key(name, key) }
