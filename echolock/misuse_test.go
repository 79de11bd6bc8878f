package echolock_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/rig"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A routing is how a developer has put the middleware in place. fine is a handler
// that answers 200.
type routing func(e *echo.Echo, lock echo.MiddlewareFunc, fine echo.HandlerFunc)

func routes(e *echo.Echo, fine echo.HandlerFunc) {
	e.POST("/orders/:id/pay", fine)
	e.POST("/health", fine)
}

func onRoute(e *echo.Echo, lock echo.MiddlewareFunc, fine echo.HandlerFunc) {
	e.POST("/orders/:id/pay", fine, lock)
}

func onGroup(e *echo.Echo, lock echo.MiddlewareFunc, fine echo.HandlerFunc) {
	e.Group("/orders/:id", lock).POST("/pay", fine)
	e.Group("/shop", lock).POST("/*", fine)
}

func inUse(e *echo.Echo, lock echo.MiddlewareFunc, fine echo.HandlerFunc) {
	e.Use(lock)
	routes(e, fine)
}

func inPre(e *echo.Echo, lock echo.MiddlewareFunc, fine echo.HandlerFunc) {
	e.Pre(lock)
	routes(e, fine)
}

func onHost(e *echo.Echo, lock echo.MiddlewareFunc, fine echo.HandlerFunc) {
	g := e.Host("example.com", lock) // which is what httptest asks for
	g.POST("/orders/:id/pay", fine)
	routes(e, fine)
}

// inUseWithNotFound has a handler that works for paths that Echo does not know, such
// as one that hands them on to another server.
func inUseWithNotFound(e *echo.Echo, lock echo.MiddlewareFunc, fine echo.HandlerFunc) {
	e.Use(lock)
	routes(e, fine)
	e.RouteNotFound("/*", fine)
}

const (
	missing  = "keyfunc: required value is missing or empty: "
	noSuch   = " has no such parameter; it has "
	nowhere  = ": no route is known here; put the middleware on the route, not in front of the router"
	notFound = `404 {"message":"Not Found"}`
)

// What a developer has written, and what becomes of a request: its answer, the lock
// under which the handler runs, and the line in the log.
func TestPlaceOfTheMiddlewareIsChecked(t *testing.T) {
	param, header := keyfunc.MustParse("order:{param.id}"), keyfunc.MustParse("user:{header.X-User}")
	for _, tc := range []struct {
		wrote   string
		routing routing
		key     keyfunc.Func
		request string // "POST /orders/42/pay", and who sends it: "POST /orders/42/pay ann"
		answer  string // its status, and its text if that is not a problem
		lock    string // the handler's
		code    string // in the log
		says    string // there
	}{
		{"on its route", onRoute, param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"on its route, with a wrong name", onRoute, keyfunc.Param("order"), "POST /orders/42/pay", "500 ", "", "LOCK_MISUSE", missing + `param "order": route "/orders/:id/pay"` + noSuch + `"id"`},
		{"on its group", onGroup, param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"on its group, for a path that is unknown there", onGroup, keyfunc.Param("item"), "POST /orders/42/nothing", notFound, "", "", ""},
		{"on its group, a header, for a path that is unknown there", onGroup, header, "POST /orders/42/nothing", notFound, "", "", ""},
		{"on its group, for an unknown method", onGroup, keyfunc.Param("item"), "GET /orders/42/pay", notFound, "", "", ""},
		{"on its group, with a wrong name, for a route with a star", onGroup, keyfunc.Param("item"), "POST /shop/any/thing", "500 ", "", "LOCK_MISUSE", missing + `param "item": route "/shop/*"` + noSuch + `"*"`},
		{"in Use", inUse, param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"in Use, for a route without the parameter", inUse, param, "POST /health", "500 ", "", "LOCK_MISUSE", missing + `param "id": route "/health"` + noSuch + "none"},
		{"in Use, for an unknown path", inUse, param, "POST /nothing", notFound, "", "", ""},
		{"in Use, for an unknown method", inUse, param, "GET /orders/42/pay", `405 {"message":"Method Not Allowed"}`, "", "", ""},
		{"in Use, for OPTIONS", inUse, param, "OPTIONS /orders/42/pay", "204 ", "", "", ""},
		{"in Use, all parameters, for an unknown path", inUse, keyfunc.Params(), "POST /nothing", notFound, "", "", ""},
		{"in Use, the route, for an unknown path", inUse, keyfunc.Route(), "POST /nothing", notFound, "", "", ""},
		{"in Use, a header, for an unknown path", inUse, header, "POST /nothing", notFound, "", "", ""},
		{"in Use, a header", inUse, header, "POST /orders/42/pay", "400 ", "", "LOCK_KEY_INVALID", "invalid key: " + missing + `header "X-User"`},
		{"in Use, and RouteNotFound works, with a parameter", inUseWithNotFound, param, "POST /nothing", notFound, "", "", ""},
		{"in Use, and RouteNotFound works, with a header", inUseWithNotFound, header, "POST /nothing ann", "200 fine", "user:ann", "", ""},
		{"in Use, and RouteNotFound works, with a header that is missing", inUseWithNotFound, header, "POST /nothing", "400 ", "", "LOCK_KEY_INVALID", "invalid key: " + missing + `header "X-User"`},
		{"in Pre", inPre, param, "POST /orders/42/pay", "500 ", "", "LOCK_MISUSE", missing + `param "id"` + nowhere},
		{"in Pre, for an unknown path", inPre, param, "POST /nothing", notFound, "", "", ""},
		{"on a host", onHost, param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"on a host, with a wrong name", onHost, keyfunc.Param("order"), "POST /orders/42/pay", "500 ", "", "LOCK_MISUSE", missing + `param "order": route "/orders/:id/pay"` + noSuch + `"id"`},
		{"on a host, for an unknown path", onHost, param, "POST /nothing", notFound, "", "", ""},
	} {
		t.Run(tc.wrote, func(t *testing.T) {
			var log rig.Log
			r := rig.New(t, redistest.Embedded(t))
			locks := r.NewLocker(log.Option())
			got := ""
			e := echo.New()
			e.Logger.SetOutput(io.Discard)
			tc.routing(e, echolock.Middleware(locks, tc.key, lockmw.Policy{Name: "pay"}), func(c echo.Context) error {
				if lease, ok := lockmw.FromContext(c.Request().Context()); ok {
					got = lease.Key()
				}
				return c.String(http.StatusOK, "fine")
			})
			for range 3 {
				if answer := rig.Ask(e, tc.request); answer != tc.answer {
					t.Errorf("answer = %q, want %q", answer, tc.answer)
				}
			}
			if got != tc.lock {
				t.Errorf("the handler ran under %q, want %q", got, tc.lock)
			}
			r.CloseNow(locks)
			log.Want(t, "pay", tc.code, tc.says)
		})
	}
}
