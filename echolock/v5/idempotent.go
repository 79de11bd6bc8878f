package echolock

import (
	"github.com/labstack/echo/v5"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Idempotent returns a middleware that has the handler run once for all requests with the same key: a double click pays
// once, and both clicks get the receipt. So does a client that sends its request again because it has not seen the answer.
//
//	e.POST("/orders/:id/pay", pay,
//		echolock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
//			lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour}))
//
// The first request runs the handler under a lock, whose lease is in the request's context. One that comes meanwhile, in whatever process,
// waits for its response for as long as f.Policy.Wait, and one that comes later gets it until f.Retain is over: the same status, body
// and header, and Idempotent-Replayed: true. The key is used for one route. See "Idempotency" in the documentation of the package.
//
// It panics where Middleware does, if f is invalid (Locker.ValidateFlight), and if key reads a header and nothing
// else: whose key is it? Put the user in front, or see WithKeysOfEverybody. To find that out it calls key once with a made-up request. GET, HEAD, OPTIONS
// and TRACE pass as if the middleware were not there.
func Idempotent(l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, opts ...Option) echo.MiddlewareFunc {
	door := echodoor.NewIdempotent(name, version{}, l, key, f, opts)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return door.Handle(c, next) }
	}
}
