package ginlock

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/internal/httpdoor"
)

// An Option changes how Middleware or Idempotent behaves. Each of them panics if it is
// given an option that is for the other one alone.
type Option func(*options)

type options struct {
	httpdoor.Config
	skip        func(*gin.Context) bool
	onError     func(*gin.Context, error)
	fingerprint func(*gin.Context) ([]byte, error)
}

func newOptions(call string, opts []Option) options {
	o := options{Config: httpdoor.NewConfig("ginlock", call)}
	httpdoor.Apply(o.Config, &o, opts)
	return o
}

// WithErrorHandler sets the function that answers a request that does not get the lock,
// or that loses it before anything was written. err is a *lockmw.AcquireError, or Is
// lockmw.ErrLost or, with Idempotent, lockmw.ErrUncertain. Its text names the key and is
// not for clients.
//
// handle cannot let a refused request through: the handlers behind the middleware do not
// run. If handle sets neither a status nor a body, the problem is written as without this
// option. handle is not called when the client is gone.
func WithErrorHandler(handle func(c *gin.Context, err error)) Option {
	return func(o *options) {
		o.Func("WithErrorHandler", handle == nil)
		o.onError = handle
	}
}

// WithSkipper has requests for which skip returns true run without a lock, or as if
// Idempotent were not there.
func WithSkipper(skip func(c *gin.Context) bool) Option {
	return func(o *options) {
		o.Func("WithSkipper", skip == nil)
		o.skip = skip
	}
}

// WithReadWrite has safe methods (GET, HEAD, OPTIONS, TRACE) take the lock in mode
// lockmw.Shared, so that they run beside each other. All other methods take it in
// lockmw.Exclusive, whatever the policy's Mode is. Middleware panics if the policy has
// Permits.
func WithReadWrite() Option { return func(o *options) { o.ReadWrite() } }

// WithBodyLimit sets how much of a request's body is read before the lock is taken. The
// default is 64 KiB. A longer body is refused if the key is a field of it, or a query
// value while the body is a form, and by Idempotent in any case. What was read stays in
// memory while the request waits for its lock. Middleware panics unless bytes is
// positive.
func WithBodyLimit(bytes int64) Option { return func(o *options) { o.LimitBody(bytes) } }

// WithBodyTimeout sets how long a handler waits for a body that was not read before the
// lock was taken. The default is 5 s. A Read of the request's body fails in these cases:
//
//   - less than 1 KiB has come in that time;
//   - the whole body has taken twelve times that, which is a minute by default;
//   - the lease's context has ended. A Read that is under way fails then, too.
//
// Only time in which somebody waits for the client counts. The error Is
// os.ErrDeadlineExceeded, or the cause with which the context has ended. Over HTTP/1 the
// connection is closed after the answer. A route for long uploads needs a longer timeout;
// a policy's MaxHold bounds it further.
//
// Before a long answer, or one that is flushed, net/http reads up to 256 KiB of what the
// handler has left of the body. The timeout is for that, too.
//
// Middleware panics if timeout is less than 1 ms.
func WithBodyTimeout(timeout time.Duration) Option {
	return func(o *options) { o.TimeBody(timeout) }
}

// WithBufferedResponse holds the response back until the lock's Release has returned. So
// a lost lock can be answered with an error although the handler has written, and a slow
// client does not prolong the lock. If a body grows over max bytes, it is sent from then
// on as it is written, and such an answer cannot be taken back. While a response is held
// back, Flush does nothing, and Hijack fails. Middleware panics unless max is positive.
func WithBufferedResponse(max int) Option { return func(o *options) { o.HoldResponse(max) } }

// WithKeep is for Idempotent. It sets which responses are kept, by their status and their
// whole header. A request whose response is not kept counts as not sent: the next one
// with its key runs the handlers. Without WithKeep, responses below 500 are kept, except
// 206, 307, 308, 401, 403, 406 to 409, 412, 417, 421, 423 to 426, 428, 429 and 431. With
// lockmw.Uncertain, 206, 408 and those of 500 and more are kept as well. keep must not
// change the header.
func WithKeep(keep func(status int, header http.Header) bool) Option {
	return func(o *options) { o.Keep(keep) }
}

// WithFingerprint is for Idempotent. It sets what two requests with the same key are
// compared by. If their fingerprints differ, the second one is refused with 422
// IDEMPOTENCY_KEY_REUSED. Without WithFingerprint, the method, the path, the query, the
// Content-Type without its parameters and the body are compared; of a multipart form, its
// parts. fingerprint may read the body; the handlers still get all of it. An error of
// fingerprint is answered like one of the key function. A body over WithBodyLimit is
// refused all the same.
func WithFingerprint(fingerprint func(c *gin.Context) ([]byte, error)) Option {
	return func(o *options) {
		o.Fingerprint(fingerprint == nil)
		o.fingerprint = fingerprint
	}
}

// WithOptionalKey is for Idempotent. Without it, a request that lacks a part of its key
// is refused with 400 IDEMPOTENCY_KEY_MISSING. With it, such a request runs as if the
// middleware were not there. That does not apply to a value of earlier middleware or a
// parameter of the route: a request without such a value is refused all the same.
func WithOptionalKey() Option { return func(o *options) { o.OptionalKey() } }

// WithKeysOfEverybody is for Idempotent. It allows a key of one header or one field of
// the body and nothing else. Whoever sends the same key and the same request then gets
// the same answer, even if that is another user. It is for services without users, or
// whose keys nobody can guess or overhear.
func WithKeysOfEverybody() Option { return func(o *options) { o.KeysOfEverybody() } }
