// Package httplock runs net/http requests under a Redis lock: one line around
// a handler.
//
//	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second})
//	mux.Handle("POST /orders/{id}/pay", lock(http.HandlerFunc(pay)))
//
// The handler runs while the lock is held. Its request's context is the
// lease's: it ends when the lock is lost, and lockmw.FromContext finds the
// lease in it.
//
// A request that does not get the lock is answered with a problem (RFC 9457,
// application/problem+json), and the handler does not run. If the lock is lost while
// the handler runs and it has written nothing, the answer is a problem too;
// WithBufferedResponse makes that possible when it has written.
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
// The middleware goes on each route, inside the mux: outside of it neither the pattern
// nor its parameters are known. A key that needs them is a mistake of the program there, as
// is a parameter that the route does not have: every request is answered with 500
// LOCK_MISUSE, and the Locker's log (slog.Default() without lockmw.WithLogger) says once for
// each route which parameters it has. Around a mux, a request that the mux has no
// handler for still gets its 404 or 405 if no key can be made of it; with a key that every request has, as one
// of a header, the lock comes first.
//
// Behind a route with a parameter, such as a mux in "/shops/{id}/" or chi's Route, a key is made of the
// parameters known so far. An inner route must not give one of them its name again: its handler would see
// another value than the key was made of. Such a request is served, and the Locker's log says so once for
// each route.
//
// Routers that set r.Pattern and r.PathValue, as chi does, are like the mux: the lock
// goes on the route (chi's With), or on a group of routes behind a pattern that has the
// parameter (Use in chi's Group and Route). It does not go into the Use of the outermost
// router, which runs before any route is known. For routers that do not set them there
// is WithParams. chi does not decode the parameters of
// a path that was sent in an unusual spelling: for /orders/%34%32 it gives "%34%32", and some
// handlers decode that. Keys are made from the decoded value, so that a client cannot dodge the lock
// of 42; so they are with UseEncodedPath of gorilla/mux.
//
// It goes behind recovery, logging, authentication and rate limits, and directly before
// the handler: a lock before authorisation lets strangers block somebody's
// resource. http.TimeoutHandler runs its handler in another goroutine; the lock
// belongs inside of it, and does not see its 503. So with the policy's MinHold a handler that
// gives up because its context has ended must answer with a status of 400 or more, although
// nobody reads that; one that returns without an answer has done its work.
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
//     are, and "a/"; a slash in front, as httprouter gives it, is fine;
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
// A handler must read a value where the key does: r.URL.Query or r.FormValue for
// the query, r.PathValue (or what WithParams reads) for a parameter, encoding/json
// for the body, r.PostFormValue or r.FormValue for a form (r.ParseForm alone reads no
// multipart one), r.Cookie for a cookie.
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
// Redis may forget what was done. docs/answers.md says what that means, and in which order middlewares go.
//
// Start reading at this file, then idempotent.go, request.go (what key functions see) and
// options.go.
package httplock

import (
	"fmt"
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Middleware returns a function that puts a handler under the lock that key
// names. It panics if l or key or an option is nil, if p is invalid, and if key reads
// a value without WithValues; what it returns panics if the handler is nil, or one of http.TimeoutHandler. To find
// out what key reads, Middleware calls it once with a made-up request, unless there is
// WithValues; key may fail or panic then.
//
// For each request key is called first, unless WithSkipper's function says otherwise. If
// key returns keyfunc.Skip the handler runs without a lock. If key fails, the answer is
// 400, or 413 for a body over the limit, or 500 for a mistake of the program
// (keyfunc.ErrMisuse), and Redis is not asked.
func Middleware(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts ...Option) func(http.Handler) http.Handler {
	o := newOptions(httpdoor.Middleware, opts)
	door := httpdoor.New(l, key, p, o.Config)
	o.checkValues(key)
	return func(next http.Handler) http.Handler {
		o.checkNext(next)
		if _, wrong := next.(*idempotent); wrong {
			o.Panic("Idempotent inside of the lock: the second of two requests would be refused, or would wait for the lock, in the place of getting the answer; write once(lock(handler))")
		}
		return &handler{options: o, door: door, next: next}
	}
}

// checkNext panics if no handler can be put behind the middleware, or next goes on when the middleware is done.
func (o *options) checkNext(next http.Handler) {
	if next == nil {
		o.Panic("the handler is nil")
	}
	if fmt.Sprintf("%T", next) == "*http.timeoutHandler" {
		o.Panic("http.TimeoutHandler inside of the lock leaves its handler at work without it; write http.TimeoutHandler(lock(handler), …)")
	}
}

type handler struct {
	options
	door *httpdoor.Door
	next http.Handler
}

// ServeHTTP runs the next handler under the lock.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.skip != nil && h.skip(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	v := &view{Visit: h.door.Visit(r), handler: h}
	locked, err := v.Enter(v, w)
	if err == nil && !locked {
		h.next.ServeHTTP(w, r)
		return
	}
	if err == nil {
		if err = h.run(w, v); err != nil {
			v.TakeBack()
		}
	}
	if err != nil {
		h.refuse(w, r, err)
	}
}

// run runs the next handler and releases the lock, also when it panics. The
// error says that the lock was lost and nothing was written.
func (h *handler) run(w http.ResponseWriter, v *view) error {
	defer v.Leave() //nolint:errcheck // it is for panics; otherwise its second call
	watched := httpdoor.Watch(w, &v.Visit)
	if v.HoldsResponse() {
		held := v.Hold(watched)
		h.next.ServeHTTP(held, v.Inner())
		v.checkInner()
		v.Returned(held.Status())
		if err := v.Leave(); err != nil && held.Held() {
			return err
		}
		held.Send()
		return nil
	}
	h.next.ServeHTTP(watched.Alike(), v.Inner())
	v.checkInner()
	v.Returned(watched.Status())
	if err := v.Leave(); err != nil && !watched.Written() {
		return err
	}
	return nil
}

// refuse answers a request that did not get the lock, or lost it.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	o := door.Refusal(err)
	if h.onError != nil && !door.ClientGone(o) {
		watched := httpdoor.Watch(w, nil)
		h.onError(watched.Alike(), r, err)
		if watched.Written() {
			return
		}
	}
	httpdoor.WriteProblem(w, r, o)
}
