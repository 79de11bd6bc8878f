package echolock_test

import (
	"maps"
	"net/http"
	"net/url"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/internal/doortest"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/keyfunc"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var framework = doortest.Framework{Door: "echolock", Serve: serve, Key: key}

func TestDoor(t *testing.T) { doortest.Run(t, framework) }

func TestDoorCostsFewAllocations(t *testing.T) { doortest.CheckAllocations(t, framework) }

func serve(routes ...doortest.Route) http.Handler {
	e := echo.New()
	for _, route := range routes {
		middleware := []echo.MiddlewareFunc{around(route)}
		if !route.Bare {
			middleware = append(middleware, echolock.Middleware(route.Locks, route.Key, route.Policy, options(route.Options)...))
		}
		e.Add(route.Method, doortest.ColonPath(route.Path), handler(route), middleware...)
	}
	return e
}

// around is the middleware around the door.
func around(route doortest.Route) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			for name, value := range route.Values {
				c.Set(name, value)
			}
			maps.Copy(c.Response().Header(), route.Header.Clone())
			err := next(c)
			if route.After != nil {
				route.After(c.Request())
			}
			return err
		}
	}
}

func handler(route doortest.Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		return route.Handle(&doortest.Exchange{W: c.Response(), R: c.Request(), Param: param(c), Query: c.QueryParam})
	}
}

// param returns a parameter as a handler decodes it that knows what Echo gives.
func param(c echo.Context) func(name string) string {
	return func(name string) string {
		value := c.Param(name)
		if c.Request().URL.RawPath != "" {
			value, _ = url.PathUnescape(value)
		}
		return value
	}
}

func options(o doortest.Options) []echolock.Option {
	var opts []echolock.Option
	if o.ErrorHandler != nil {
		opts = append(opts, echolock.WithErrorHandler(func(c echo.Context, err error) error {
			o.ErrorHandler(c.Response(), c.Request(), err)
			return nil
		}))
	}
	if o.Skipper != nil {
		opts = append(opts, echolock.WithSkipper(func(c echo.Context) bool { return o.Skipper(c.Request()) }))
	}
	if o.ReadWrite {
		opts = append(opts, echolock.WithReadWrite())
	}
	if o.BodyLimit != nil {
		opts = append(opts, echolock.WithBodyLimit(*o.BodyLimit))
	}
	if o.BodyTimeout != 0 {
		opts = append(opts, echolock.WithBodyTimeout(o.BodyTimeout))
	}
	if o.BufferedResponse != nil {
		opts = append(opts, echolock.WithBufferedResponse(*o.BufferedResponse))
	}
	if o.Nil {
		opts = append(opts, nil)
	}
	if o.NilErrorHandler {
		opts = append(opts, echolock.WithErrorHandler(nil))
	}
	if o.NilSkipper {
		opts = append(opts, echolock.WithSkipper(nil))
	}
	return opts
}

func key(native func(*http.Request) (string, error)) keyfunc.Func {
	if native == nil {
		return echolock.Key(nil)
	}
	return echolock.Key(func(c echo.Context) (string, error) { return native(c.Request()) })
}

func BenchmarkDoor(b *testing.B) { doortest.Benchmark(b, framework) }
