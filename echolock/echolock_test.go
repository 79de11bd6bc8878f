package echolock_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/lockmw/kit/echolock"
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

var version = echotest.Version[echo.Context]{
	Door: "echolock",
	New: func(showErrors bool) echotest.App[echo.Context] {
		e := echo.New()
		e.Debug = showErrors
		e.Logger.SetOutput(io.Discard)
		return app{e}
	},
	Writer: func(c echo.Context) http.ResponseWriter { return c.Response() },
	Before: func(c echo.Context, f func()) { c.Response().Before(f) },
	Error: func(status int, message string, reason error) error {
		return echo.NewHTTPError(status, message).SetInternal(reason)
	},
	Status: func(err error) int {
		if answer, ok := errors.AsType[*echo.HTTPError](err); ok {
			return answer.Code
		}
		return 0
	},
	Places:  places,
	Recover: func() around { return back(middleware.Recover()) },
	Logger: func(note func(status int, err error)) around {
		return back(middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
			LogStatus: true, LogError: true,
			LogValuesFunc: func(_ echo.Context, v middleware.RequestLoggerValues) error {
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

// The types of Echo v4 have names, and those of echotest have none.
type (
	handler = func(echo.Context) error
	around  = echotest.Middleware[echo.Context]
)

func back(m echo.MiddlewareFunc) around { return func(next handler) handler { return m(next) } }

func to(m around) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc { return m(next) }
}

type app struct{ e *echo.Echo }

func (a app) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.e.ServeHTTP(w, r) }
func (a app) Around(m around)                                  { a.e.Use(to(m)) }
func (a app) Before(m around)                                  { a.e.Pre(to(m)) }
func (a app) RouteNotFound(path string, h handler)             { a.e.RouteNotFound(path, h) }

func (a app) Route(method, path string, h handler, m ...around) {
	var chain []echo.MiddlewareFunc
	for _, m := range m {
		chain = append(chain, to(m))
	}
	a.e.Add(method, path, h, chain...)
}

func (a app) Within(prefix string, m around, method, path string, h handler) {
	a.e.Group(prefix, to(m)).Add(method, path, h)
}

func (a app) OnError(handle func(c echo.Context, err error) (more bool)) {
	a.e.HTTPErrorHandler = func(err error, c echo.Context) {
		if handle(c, err) {
			a.e.DefaultHTTPErrorHandler(err, c)
		}
	}
}

const (
	missing  = "keyfunc: required value is missing or empty: "
	notFound = `404 {"message":"Not Found"}`
)

// places are those that Echo v5 does not have, or takes otherwise.
var places = []echotest.Place[echo.Context]{{
	Wrote: "in Use, and RouteNotFound works, with a header that is missing", Routing: inUseWithNotFound, Key: keyfunc.Header("X-User"),
	Request: "POST /nothing", Answer: "400 ", Code: "LOCK_KEY_INVALID", Says: "invalid key: " + missing + `header "X-User"`,
}, {
	Wrote: "on a host", Routing: onHost, Key: keyfunc.MustParse("order:{param.id}"),
	Request: "POST /orders/42/pay", Answer: "200 fine", Lock: "order:42",
}, {
	Wrote: "on a host, with a wrong name", Routing: onHost, Key: keyfunc.Param("order"),
	Request: "POST /orders/42/pay", Answer: "500 ", Code: "LOCK_MISUSE", Says: missing + `param "order": route "/orders/:id/pay" has no such parameter; it has "id"`,
}, {
	Wrote: "on a host, for an unknown path", Routing: onHost, Key: keyfunc.Param("id"),
	Request: "POST /nothing", Answer: notFound,
}}

func inUseWithNotFound(e echotest.App[echo.Context], lock around, fine handler) {
	e.Around(lock)
	e.RouteNotFound("/*", fine)
}

func onHost(e echotest.App[echo.Context], lock around, fine handler) {
	host := e.(app).e.Host("example.com", to(lock)) // which is what httptest asks for
	host.POST("/orders/:id/pay", fine)
	e.Route(http.MethodPost, "/orders/:id/pay", fine)
}
