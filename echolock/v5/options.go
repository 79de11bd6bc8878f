package echolock

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/kit/internal/echodoor"
)

// An Option changes how Middleware or Idempotent behaves. One that says nothing to the other is a mistake there, and that panics.
type Option = echodoor.Option[*echo.Context]

// WithErrorHandler sets who answers a request that does not get the lock, or that loses
// it before anything was written. handle writes an answer, or returns an error for Echo's
// HTTPErrorHandler. If it does neither, or returns err, itself or wrapped by an error that
// has no StatusCode of its own, the problem is sent as without it. err is a
// *lockmw.AcquireError, or Is lockmw.ErrLost; its text names the key and is not for
// clients. The handler of the route does not run, whatever handle does. handle is not
// called when the client is gone.
func WithErrorHandler(handle func(c *echo.Context, err error) error) Option {
	return echodoor.WithErrorHandler(handle)
}

// WithSkipper has requests run without a lock for which skip returns true.
func WithSkipper(skip func(c *echo.Context) bool) Option { return echodoor.WithSkipper(skip) }

// WithReadWrite has GET, HEAD, OPTIONS and TRACE take the lock in mode lockmw.Shared, so
// that they run beside each other, and other methods, Echo's QUERY among them, in
// lockmw.Exclusive. Middleware panics if the policy has Permits.
func WithReadWrite() Option { return echodoor.WithReadWrite[*echo.Context]() }

// WithBodyLimit sets how much of a request's body is read before the lock is taken, and
// kept in memory while the request waits for it: 64 KiB by default. A longer one is
// refused if the key is a field of it. Middleware panics unless bytes is positive.
func WithBodyLimit(bytes int64) Option { return echodoor.WithBodyLimit[*echo.Context](bytes) }

// WithBodyTimeout sets how long a handler waits for more of a body that was not read
// before the lock was taken, 5 s by default: a Read fails when less than 1 KiB has come in
// that time, with an error that Is os.ErrDeadlineExceeded, or with the cause of the
// lease's context when that ends. Middleware panics if timeout is less than 1 ms.
func WithBodyTimeout(timeout time.Duration) Option {
	return echodoor.WithBodyTimeout[*echo.Context](timeout)
}

// WithBufferedResponse holds up to max bytes of the response back until the lock is
// released, so that a lost lock can be answered with an error although the handler has
// written, and a slow client does not prolong the lock. What is longer is sent from then
// on as it is written. While a response is held back Flush does nothing, Hijack fails,
// and echo.UnwrapResponse finds a response of its own. Middleware panics unless max is
// positive.
func WithBufferedResponse(max int) Option { return echodoor.WithBufferedResponse[*echo.Context](max) }

// WithKeep is for Idempotent. It sets which responses are kept, by their status and their whole header: a request whose
// response is not kept is as good as not sent, and the next one with its key runs the handler. Without it these are kept: those below 500, except 401,
// 403, 408, 409, 425, 429 and 206, and with lockmw.Uncertain those of 500 and more as well. keep must not change the header.
func WithKeep(keep func(status int, header http.Header) bool) Option {
	return echodoor.WithKeep[*echo.Context](keep)
}

// WithFingerprint is for Idempotent. It sets what tells two requests apart that have the same key; the second one is refused
// then, with 422 IDEMPOTENCY_KEY_REUSED. Without it that is the method, the path, the query, the Content-Type without its parameters, and the
// body, of a multipart form its parts. fingerprint may read the body; the handler gets all of it. An error is answered like one of the key function.
// A body over WithBodyLimit is refused all the same.
func WithFingerprint(fingerprint func(c *echo.Context) ([]byte, error)) Option {
	return echodoor.WithFingerprint(fingerprint)
}

// WithOptionalKey is for Idempotent. It has a request that lacks a part of its key run as if the middleware were not there, where it would be
// refused with 400 IDEMPOTENCY_KEY_MISSING. A value of earlier middleware is no such part, nor is a parameter of the route.
func WithOptionalKey() Option { return echodoor.WithOptionalKey[*echo.Context]() }

// WithKeysOfEverybody is for Idempotent. It allows a key of one header and nothing else: whoever sends the same key and the same request gets
// the same answer, also another user. It is for services without users, or whose keys nobody can guess or overhear.
func WithKeysOfEverybody() Option { return echodoor.WithKeysOfEverybody[*echo.Context]() }
