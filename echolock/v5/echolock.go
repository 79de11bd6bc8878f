// Package echolock runs Echo (v5) requests under a Redis lock: one line beside a route.
//
//	e.POST("/orders/:id/pay", pay,
//		echolock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}))
//
// The handler runs while the lock is held. The context of c.Request() is the lease's: it
// ends when the lock is lost, and lockmw.FromContext finds the lease in it.
//
// The package of this name for Echo v4 has the path echolock. Both take the same
// arguments and options, refuse the same requests with the same codes, and take the same
// locks, so a service may move from one to the other route by route.
//
// # Refusals
//
// For a request that does not get the lock the handler does not run, and the middleware
// returns an error. Echo's DefaultHTTPErrorHandler makes a problem of it (RFC 9457,
// application/problem+json), with the refusal's code in its field "code", and the header
// Retry-After, and the same in milliseconds in retry_after_ms, where asking again makes
// sense:
//
//   - 400 LOCK_KEY_INVALID: no key can be made of the request; 413 if that is because
//     its body is longer than WithBodyLimit
//   - 409 LOCK_BUSY, LOCK_WAIT_TIMEOUT: others hold the lock
//   - 409 LOCK_COOLDOWN, without Retry-After: its work was done a moment ago (Policy.MinHold)
//   - 503 LOCK_QUEUE_FULL, LOCK_BACKEND_UNAVAILABLE, LOCK_CLOSED: too many wait already;
//     Redis cannot be reached, or refuses; the Locker is closed
//   - 500 LOCK_LOST: the lock was lost while the handler was at work, and it had written
//     nothing, or WithBufferedResponse has held that back
//   - 500 LOCK_MISUSE: a mistake of the program
//
// Nothing in it shows a key, a token or what Redis said. Echo's
// ProblemDetailsHTTPErrorHandler leaves code and retry_after_ms out. For a handler of your
// own echo.StatusCode finds the status, errors.As an *echo.HTTPError whose message may be
// shown, and lockmw.RefusalOf all of it; one that writes something else than JSON must set
// the Content-Type, which is that of a problem already. Or see WithErrorHandler.
//
// # Where it goes
//
// The middleware goes on routes and groups or into Echo.Use, not into Echo.Pre, where no
// route is known. A key that needs one there is a mistake of the program, as is a
// parameter that the route does not have: every request is answered with 500 LOCK_MISUSE,
// and the Locker's log (slog.Default() without lockmw.WithLogger) says once for each route which
// parameters it has.
//
// Echo gives a route and a group what its group has been given so far. So routes and groups that are made before
// Group.Use run without its lock, and nobody is told. Echo.Use is for all routes, whenever they are made.
//
// Echo.Use and Group.Use run the middleware for unknown paths and methods, too. Those
// still get 404 or 405 if no key can be made of the request. A handler of your own for
// them, from RouteNotFound or from the RouterConfig, runs under the lock or not at all:
// where no key can be made the answer is that of echo.ErrNotFound or
// echo.ErrMethodNotAllowed.
//
// It goes behind recovery, logging, authentication and rate limits, and directly before
// the handler: a lock before authorisation lets strangers block somebody's resource.
// Echo's ContextTimeout goes in front of it; when the time is up while a request waits for
// the lock, it answers 503 in the place of 409. An http.TimeoutHandler runs the handler in
// another goroutine; the lock belongs inside of it.
//
// # Route parameters
//
// Echo gives a parameter as it was sent when the path was sent in an unusual spelling:
// for /orders/%34%32 c.Param("id") is "%34%32". Keys are made from the decoded value, so
// that a client cannot dodge the lock of 42. With the RouterConfig's
// UseEscapedPathForMatching or UnescapePathParamValues Echo decodes it, and keys are made
// from what c.Param returns.
//
// Some requests are refused (400) if their key is made from the parameter. For
// /orders/%2534%2532 c.Param("id") is "%34%32", too, and some handlers decode that. And
// Echo takes "42/" for the last parameter of /orders/:id; so a slash in c.Param("id") is
// refused, also where a router that decodes parameters has made it of %2F. So is what
// "/files/*" takes, if path.Clean would change it, as "a//b", "x/../a" and "a/".
//
// # Request bodies, long answers, and names in several places
//
// What the package for Echo v4 says about these is true here as well: a body is read
// before the lock is taken, so that a slow client holds none; a field is looked up as
// encoding/json does it; a client that does not read a long answer keeps the lock, unless
// the server has a WriteTimeout or the policy a MaxHold; and where a client has put a name
// into several places, so that handlers may differ about which of them counts, the request
// is refused (400). Where c.Bind reads the query, in a GET, HEAD, DELETE or QUERY, it reads
// the body after it, into the same fields; so with a key of the query such a request must
// not have a body.
//
// A handler must read a value where the key does. c.Bind lets a body overwrite what it
// took from the path, by any field of the struct that the body's format has a name for.
// This middleware cannot see that. With a key such as {param.id|int} take the parameter from
// c.Param, or close its field to bodies, and give it no form or query tag:
//
//	ID string `param:"id" json:"-" xml:"-"`
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
// An error that the handler returns is answered by Echo's HTTPErrorHandler before Idempotent returns, so that the answer can be kept, and is returned as well. An HTTPErrorHandler of your
// own must do nothing where the response is committed, as Echo's own does.
//
// Redis may forget what was done. docs/answers.md says what that means, and in which order middlewares go.
//
// Start reading at this file, then idempotent.go, options.go, version.go (how this version of Echo does
// what v4 does in another way) and refusal.go. What they have in common is in
// internal/echodoor.
package echolock

import (
	"github.com/labstack/echo/v5"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// name is this package's in errors.
const name = "echolock/v5"

// Middleware returns a middleware that runs the handler under the lock that key names. It
// panics if l or key or an option is nil or p is invalid.
//
// For each request key is called first, unless WithSkipper's function says otherwise. If
// key returns keyfunc.Skip the handler runs without a lock. If key fails, the answer is
// 400, or 413 for a body over the limit, or 500 for a mistake of the program
// (keyfunc.ErrMisuse), and Redis is not asked.
func Middleware(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts ...Option) echo.MiddlewareFunc {
	door := echodoor.New(name, version{}, l, key, p, opts)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return door.Handle(c, next) }
	}
}

// Key makes a key function of one that reads an Echo context. It works in this package
// only. The function may read the body, up to WithBodyLimit; the handler gets all of it, from its
// beginning. If it reads further, or the body cannot be read, the request is refused with 413 or
// 400, whatever the function returns. It must not keep the context. What it returns is
// escaped where a key may not hold a character, as in keyfunc.Value; an empty string is
// keyfunc.ErrMissing. The function must escape values that it joins itself, or leave that
// to keyfunc.Join. Key panics if it is nil.
func Key(key func(*echo.Context) (string, error)) keyfunc.Func { return echodoor.Key(name, key) }
