package echolock

import (
	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Idempotent returns a middleware that has the handler run once for all requests with the same key. Normally, a double
// click pays once, and both clicks get the receipt. So does a client that sends its request again because it has not
// seen the answer. docs/answers.md says when work is done twice.
//
//	e.POST("/orders/:id/pay", pay,
//		echolock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
//			lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain}))
//
// The first request runs the handler under a lock, and the lease is in the request's context. A request that comes
// meanwhile, in whatever process, waits for the response for as long as f.Policy.Wait allows. A request that comes
// later gets the response until f.Retain is over. Both get the same status, body and header, and Idempotent-Replayed:
// true. The same key on another route, or with another method, is another key. See "Idempotency" in the documentation
// of the package.
//
// Idempotent panics where Middleware does, and in these cases:
//
//   - f is invalid (Locker.ValidateFlight), its Retain is zero, or it has a Fingerprint;
//   - key reads one header or one field of the body, and nothing else, so that nobody can tell whose key that is: put
//     the user in front, or see WithKeysOfEverybody.
//
// To find out what key reads, Idempotent calls it with a made-up request; key may fail or panic then. GET, HEAD,
// OPTIONS and TRACE pass as if the middleware were not there.
func Idempotent(l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, opts ...Option) echo.MiddlewareFunc {
	door := echodoor.NewIdempotent(name, version{}, l, key, f, opts)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return door.Handle(c, next) }
	}
}
