package echolock

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/internal/echodoor"
)

// An Option changes how Middleware behaves.
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
