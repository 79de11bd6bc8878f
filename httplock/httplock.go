// Package httplock runs net/http requests under a Redis lock: one line around a handler.
//
//	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second})
//	mux.Handle("POST /orders/{id}/pay", lock(http.HandlerFunc(pay)))
//
// The handler runs while the lock is held. The context of its request is the lease's: it
// ends when the lock is lost, and lockmw.FromContext finds the lease in it.
//
// A request that does not get the lock is answered with a problem (RFC 9457,
// application/problem+json), and the handler does not run. If the lock is lost while the
// handler runs, the answer is a problem, too, as long as the handler has written nothing.
// WithBufferedResponse makes that possible even after it has written.
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
// The middleware goes on each route, inside the mux. Outside the mux, neither the pattern
// nor its parameters are known, and a key that needs them is a mistake of the program. So
// is a parameter that the route does not have. Every such request is answered with 500
// LOCK_MISUSE. The Locker's log (slog.Default() without lockmw.WithLogger) says once for
// each route which parameters the route has.
//
// If the middleware stands around a mux, a request that the mux has no handler for still
// gets its 404 or 405, if no key can be made of it. If every request has a key, such as
// one made of a header, the lock comes first.
//
// Behind a route with a parameter, such as a mux in "/shops/{id}/" or chi's Route, a key
// is made of the parameters known so far. An inner route must not use the name of one of
// them again: its handler would see another value than the one in the key. Such a request
// is served, and the Locker's log says so once for each route.
//
// Routers that set r.Pattern and r.PathValue, as chi does, are like the mux. The lock
// goes on the route (chi's With), or on a group of routes behind a pattern that has the
// parameter (Use in chi's Group and Route). It does not go into the Use of the outermost
// router, which runs before any route is known. For routers that do not set r.Pattern and
// r.PathValue, there is WithParams.
//
// chi does not decode parameters if the path was sent in an unusual spelling: for
// /orders/%34%32 it gives "%34%32", and some handlers decode that. Keys are made from the
// decoded value, so that a client cannot dodge the lock of 42. The same holds for
// UseEncodedPath of gorilla/mux.
//
// The middleware goes behind recovery, logging, authentication and rate limits, and
// directly in front of the handler. A lock in front of authorisation lets strangers block
// somebody else's resource.
//
// http.TimeoutHandler runs its handler in another goroutine. The lock belongs inside it,
// and does not see its 503. So with the policy's MinHold, a handler that gives up because
// its context has ended must answer with a status of 400 or more, although nobody reads
// that. If it returns without an answer, its work counts as done.
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
//     as "a//b", "x/../a" or "a/"; a slash in front, as httprouter gives it, is fine;
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
// A handler must read a value where the key does:
//
//   - the query: r.URL.Query or r.FormValue
//   - a parameter: r.PathValue, or what WithParams reads
//   - the body: encoding/json
//   - a form: r.PostFormValue or r.FormValue (r.ParseForm alone does not read a multipart
//     form)
//   - a cookie: r.Cookie
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
// Idempotent goes in front of the lock. If a lock stands in front of Idempotent, the
// second of two requests would be refused by that lock, or wait for it, in place of
// getting the answer. The Locker's log (slog.Default() without lockmw.WithLogger) says so
// once for each route.
//
// Redis may forget what was done. docs/answers.md says what that means, and in which
// order middlewares go.
package httplock

import (
	"fmt"
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Middleware returns a function that puts a handler under the lock that key names.
// Middleware panics if l, key or an option is nil, if p is invalid, and if key reads a
// value and there is no WithValues. To find out what key reads, Middleware calls it once
// with a made-up request, unless there is WithValues; key may fail or panic then. The
// function that Middleware returns panics if the handler is nil, is one of
// http.TimeoutHandler, or is one that Idempotent has made.
//
// For each request, WithSkipper's function is asked first, and then key. If key returns
// keyfunc.Skip, the handler runs without a lock. If key fails, Redis is not asked. The
// answer is then 400, or 413 for a body over the limit, or 500 for a mistake of the
// program (keyfunc.ErrMisuse).
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
