// Package echolock runs Echo (v4) requests under a Redis lock: one line beside
// a route.
//
//	e.POST("/orders/:id/pay", pay,
//		echolock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}))
//
// The handler runs while the lock is held. The context of c.Request() is the
// lease's: it ends when the lock is lost, and lockmw.FromContext finds the
// lease in it.
//
// For a request that does not get the lock the handler does not run, and the
// middleware returns an *echo.HTTPError. Echo's HTTPErrorHandler makes a problem
// (RFC 9457, application/problem+json) of it, and logging middleware sees it like any
// other error: errors.Is finds the reason in it. An HTTPErrorHandler of your
// own that writes something else than JSON must set the Content-Type. If the
// lock is lost while the handler runs and it has written nothing, the answer is
// a problem too; WithBufferedResponse makes that possible when it has written.
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
// # Where it goes
//
// The middleware goes on routes and groups or into Echo.Use, not into Echo.Pre, where no
// route is known. A key that needs one there is a mistake of the program, as is a parameter that
// the route does not have: every request is answered with 500 LOCK_MISUSE, and the
// Locker's log (slog.Default() without lockmw.WithLogger) says once for each route which
// parameters it has.
//
// Echo gives a route and a group what its group has been given so far. So routes and groups that are made before
// Group.Use run without its lock, and nobody is told. Echo.Use is for all routes, whenever they are made.
//
// Echo.Use and Group.Use run the middleware for unknown paths and methods, too. Those
// still get 404 or 405 if no key can be made of the request. A handler of your own for
// RouteNotFound runs under the lock or not at all: its request gets 404 if the key needs
// a parameter that is not there, and is refused if no key can be made for another
// reason.
//
// It goes behind recovery, logging, authentication and rate limits, and directly
// before the handler: a lock before authorisation lets strangers block
// somebody's resource. Echo's Timeout middleware runs the handler in another
// goroutine; the lock belongs inside of it. It keeps the answer until the handler has returned, and
// drops it for an error: if the lock was lost behind what the handler has written, clients get an
// empty 200, unless middleware inside of Timeout answers errors.
//
// # Route parameters
//
// Echo gives a parameter as it was sent when the path was sent in an unusual
// spelling: for /orders/%34%32 c.Param("id") is "%34%32". Keys are made from the
// decoded value, so that a client cannot dodge the lock of 42. For
// /orders/%2534%2532 c.Param("id") is "%34%32", too, and some handlers decode
// that. Echo also takes "42/" for the last parameter of /orders/:id. Both requests
// are refused (400) if their key is made from that parameter, and so is one that is a path
// which path.Clean would change, as "a//b", "x/../a" and "a/" of "/files/*" are.
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
//   - a key of the body whose Content-Type is not application/json or another
//     +json, or is given twice;
//   - a key of the body whose name is in the query as well, in whatever case and
//     punctuation, or is missing in the body and a parameter of the route;
//   - a key of the query whose name is there with two values or in another case, or is
//     missing there and a parameter of the route, or is in a form in the body; a
//     form over WithBodyLimit is refused (413), because nobody knows what is in
//     it;
//   - a key of a form whose body does not say that it is one, or is broken, or came
//     with another method than POST, PUT or PATCH; whose name is there with two
//     values or in another case, is a file's, or is in the query as well, or is
//     missing in the form and a parameter of the route;
//   - a key of a field of the body, a header or a cookie that is there twice, with
//     different values.
//
// Key, with a function of your own, refuses none of these.
//
// Where Echo's c.Bind reads the query, in a GET, HEAD or DELETE, it reads the body
// after it, into the same fields; so with a key of the query such a request must
// not have a body.
//
// A handler must read a value where the key does: c.QueryParam or BindQueryParams
// for the query, c.Param for a parameter, c.Bind or BindBody for the body,
// c.FormValue too for a form, c.Cookie for a cookie. c.Bind lets a body overwrite what it took from the path, by any field of the struct
// that the body's format has a name for, with a tag or without. This middleware cannot
// see that. With a key such as {param.id|int} take the parameter from c.Param, or
// close its field to bodies, and give it no form or query tag (Echo takes "-" for
// a name there):
//
//	ID string `param:"id" json:"-" xml:"-"`
//
// Nor does it see that a field has another name in a tag: c.Bind
// takes what is missing in the body from the path and the query. With a key such
// as {body.sku?} the field has no param and query tag, or one of the same name.
//
// Package echolock of the path echolock/v5 is the same for Echo v5.
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
// Start reading at this file, then idempotent.go, options.go, and version.go (how this version of Echo
// does what the other does in another way). What they have in common is in
// internal/echodoor.
package echolock

import (
	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// name is this package's in errors.
const name = "echolock"

// Middleware returns a middleware that runs the handler under the lock that key
// names. It panics if l or key or an option is nil or p is invalid.
//
// For each request key is called first, unless WithSkipper's function says otherwise. If
// key returns keyfunc.Skip the handler runs without a lock. If key fails, the answer is
// 400, or 413 for a body over the limit, or 500 for a mistake of the program
// (keyfunc.ErrMisuse), and Redis is not asked.
func Middleware(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts ...Option) echo.MiddlewareFunc {
	door := echodoor.New(name, version{}, l, key, p, opts)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return door.Handle(c, next) }
	}
}

// Key makes a key function of one that reads an Echo context. It works in
// echolock only. The function may read the body, up to WithBodyLimit; the handler gets all of it,
// from its beginning. If it reads further, or the body cannot be read, the request is refused with
// 413 or 400, whatever the function returns. What it returns is
// escaped where a key may not hold a character, as in keyfunc.Value; an empty
// string is keyfunc.ErrMissing. The function must escape values that it joins
// itself, or leave that to keyfunc.Join. Key panics if it is nil.
func Key(key func(echo.Context) (string, error)) keyfunc.Func { return echodoor.Key(name, key) }
