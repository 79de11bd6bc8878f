package echolock_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/echotest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestDoor(t *testing.T) { doortest.Run(t, echotest.Doortest(version)) }

func TestDoorCostsFewAllocations(t *testing.T) {
	doortest.CheckAllocations(t, echotest.Doortest(version))
}

func BenchmarkDoor(b *testing.B) { doortest.Benchmark(b, echotest.Doortest(version)) }

func TestEcho(t *testing.T) { echotest.Run(t, version) }

var version = echotest.Version[*echo.Context]{
	Door: "echolock/v5",
	New: func(showErrors bool) echotest.App[*echo.Context] {
		return newApp(echo.Config{HTTPErrorHandler: echo.DefaultHTTPErrorHandler(showErrors)})
	},
	Writer: func(c *echo.Context) http.ResponseWriter { return c.Response() },
	Before: func(c *echo.Context, f func()) { unwrapped(c).Before(f) },
	Error: func(status int, message string, reason error) error {
		return echo.NewHTTPError(status, message).Wrap(reason)
	},
	Status:  echo.StatusCode,
	Places:  places,
	Recover: func() around { return back(middleware.Recover()) },
	Logger: func(note func(status int, err error)) around {
		return back(middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
			LogStatus: true,
			LogValuesFunc: func(_ *echo.Context, v middleware.RequestLoggerValues) error {
				note(v.Status, v.Error)
				return nil
			},
		}))
	},
	Lock: func(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts ...echolock.Option) around {
		return back(echolock.Middleware(l, key, p, opts...))
	},
	Once: func(l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, opts ...echolock.Option) around {
		return back(echolock.Idempotent(l, key, f, opts...))
	},
	Key:                  echolock.Key,
	WithErrorHandler:     echolock.WithErrorHandler,
	WithSkipper:          echolock.WithSkipper,
	WithReadWrite:        echolock.WithReadWrite,
	WithBodyLimit:        echolock.WithBodyLimit,
	WithBodyTimeout:      echolock.WithBodyTimeout,
	WithBufferedResponse: echolock.WithBufferedResponse,
	WithKeep:             echolock.WithKeep,
	WithFingerprint:      echolock.WithFingerprint,
	WithOptionalKey:      echolock.WithOptionalKey,
	WithKeysOfEverybody:  echolock.WithKeysOfEverybody,
}

// The types of Echo v5 have names, and those of echotest have none.
type (
	handler = func(*echo.Context) error
	around  = echotest.Middleware[*echo.Context]
)

func back(m echo.MiddlewareFunc) around { return func(next handler) handler { return m(next) } }

func to(m around) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc { return m(next) }
}

// newApp returns an Echo that logs nothing.
func newApp(config echo.Config) app {
	config.Logger = slog.New(slog.DiscardHandler)
	return app{echo.NewWithConfig(config)}
}

type app struct{ *echo.Echo }

func (a app) Around(m around) { a.Use(to(m)) }
func (a app) Before(m around) { a.Pre(to(m)) }

func (a app) RouteNotFound(path string, h handler) { a.Echo.RouteNotFound(path, h) }

func (a app) Route(method, path string, h handler, m ...around) {
	var chain []echo.MiddlewareFunc
	for _, m := range m {
		chain = append(chain, to(m))
	}
	a.Add(method, path, h, chain...)
}

func (a app) Within(prefix string, m around, method, path string, h handler) {
	a.Group(prefix, to(m)).Add(method, path, h)
}

func (a app) OnError(handle func(c *echo.Context, err error) (more bool)) {
	byDefault := a.HTTPErrorHandler
	a.HTTPErrorHandler = func(c *echo.Context, err error) {
		if handle(c, err) {
			byDefault(c, err)
		}
	}
}

// unwrapped returns Echo's own response.
func unwrapped(c *echo.Context) *echo.Response {
	response, err := echo.UnwrapResponse(c.Response())
	if err != nil {
		panic(err)
	}
	return response
}

// places are those that Echo v4 takes otherwise.
var places = []echotest.Place[*echo.Context]{{
	Wrote: "in Use, and RouteNotFound works, with a header that is missing", Routing: inUseWithNotFound, Key: keyfunc.Header("X-User"),
	Request: "POST /nothing", Answer: notFound,
}, {
	Wrote: "in Pre, for an unknown method", Routing: inPre, Key: keyfunc.Param("id"),
	Request: "GET /orders/42/pay", Answer: `405 {"message":"Method Not Allowed"}`,
}}

const notFound = `404 {"message":"Not Found"}`

func inUseWithNotFound(e echotest.App[*echo.Context], lock around, fine handler) {
	e.Around(lock)
	e.RouteNotFound("/*", fine)
}

func inPre(e echotest.App[*echo.Context], lock around, fine handler) {
	e.Route(http.MethodPost, "/orders/:id/pay", fine)
	e.Before(lock)
}
