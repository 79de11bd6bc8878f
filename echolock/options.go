package echolock

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/internal/echodoor"
)

// An Option changes how Middleware or Idempotent behaves. One that says nothing to the other is a mistake there, and that panics.
type Option = echodoor.Option[echo.Context]

// WithErrorHandler sets who answers a request that does not get the lock, or
// that loses it before anything was written. It writes an answer, or returns an
// error for Echo's HTTPErrorHandler. err is a *lockmw.AcquireError, or Is
// lockmw.ErrLost. Its text names the key and is not for clients.
//
// The handler does not run, whatever handle does. If it neither writes nor
// returns an error, the problem is sent as without it, and so it is if handle
// returns err, itself or wrapped, and no *echo.HTTPError. It is not called when the
// client is gone.
func WithErrorHandler(handle func(c echo.Context, err error) error) Option {
	return echodoor.WithErrorHandler(handle)
}

// WithSkipper has requests run without a lock for which skip returns true.
func WithSkipper(skip func(c echo.Context) bool) Option { return echodoor.WithSkipper(skip) }

// WithReadWrite has safe methods (GET, HEAD, OPTIONS, TRACE) take the lock in
// mode lockmw.Shared, so that they run beside each other, and the others in
// lockmw.Exclusive, whatever the policy's Mode is. Middleware panics if the policy has
// Permits.
func WithReadWrite() Option { return echodoor.WithReadWrite[echo.Context]() }

// WithBodyLimit sets how much of a request's body is read before the lock is
// taken. A longer one is refused if the key is a field of it. A request that
// waits for its lock keeps as much in memory. The default is 64 KiB. Middleware
// panics unless bytes is positive.
func WithBodyLimit(bytes int64) Option { return echodoor.WithBodyLimit[echo.Context](bytes) }

// WithBodyTimeout sets how long a handler waits for a body that was not read
// before the lock was taken: a Read of the request's body fails when less than
// 1 KiB has come in that time, and one that is under way when the lease's context
// ends fails then. So does one when the whole body has taken twelve times that, which is a
// minute by default: a route for long uploads needs a longer timeout, and a policy's MaxHold
// bounds it further. Only time in which somebody waits for the client counts. The
// error Is os.ErrDeadlineExceeded, or the cause with which the context has ended;
// over HTTP/1 the connection is closed after the answer.
//
// Before a long answer, or one that is flushed, net/http reads up to 256 KiB of
// what the handler has left of the body. The timeout is for that, too.
//
// The default is 5 s. Middleware panics if timeout is less than 1 ms.
func WithBodyTimeout(timeout time.Duration) Option {
	return echodoor.WithBodyTimeout[echo.Context](timeout)
}

// WithBufferedResponse holds the response back until the lock's Release has returned, so
// that a lost lock can be answered with an error although the handler has
// written, and a slow client does not prolong the lock. A body of more than max
// bytes is sent from then on as it is written, and such an answer cannot be
// taken back. While a response is held back Flush does nothing; Hijack fails.
// Middleware panics unless max is positive.
func WithBufferedResponse(max int) Option { return echodoor.WithBufferedResponse[echo.Context](max) }

// WithKeep is for Idempotent. It sets which responses are kept, by their status and their whole header: a request whose
// response is not kept is as good as not sent, and the next one with its key runs the handler. Without it these are kept: those below 500, except 401,
// 403, 408, 409, 425, 429 and 206, and with lockmw.Uncertain those of 500 and more as well. keep must not change the header.
func WithKeep(keep func(status int, header http.Header) bool) Option {
	return echodoor.WithKeep[echo.Context](keep)
}

// WithFingerprint is for Idempotent. It sets what tells two requests apart that have the same key; the second one is refused
// then, with 422 IDEMPOTENCY_KEY_REUSED. Without it that is the method, the path, the query, the Content-Type without its parameters, and the
// body, of a multipart form its parts. fingerprint may read the body; the handler gets all of it. An error is answered like one of the key function.
// A body over WithBodyLimit is refused all the same.
func WithFingerprint(fingerprint func(c echo.Context) ([]byte, error)) Option {
	return echodoor.WithFingerprint(fingerprint)
}

// WithOptionalKey is for Idempotent. It has a request that lacks a part of its key run as if the middleware were not there, where it would be
// refused with 400 IDEMPOTENCY_KEY_MISSING. A value of earlier middleware is no such part, nor is a parameter of the route.
func WithOptionalKey() Option { return echodoor.WithOptionalKey[echo.Context]() }

// WithKeysOfEverybody is for Idempotent. It allows a key of one header and nothing else: whoever sends the same key and the same request gets
// the same answer, also another user. It is for services without users, or whose keys nobody can guess or overhear.
func WithKeysOfEverybody() Option { return echodoor.WithKeysOfEverybody[echo.Context]() }
