package doortest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/kit/internal/test/memnet"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The lock of the usual route, in words that no answer may show.
const (
	prefix  = "topprefix:"
	id      = "secretid"
	lockKey = prefix + "order:" + id
	payPath = "/orders/" + id + "/pay"
)

// An env is one case's Redis, Locker and server.
type env struct {
	*testenv.Env
	fw       Framework
	inMemory bool                 // in a synctest bubble: nothing has a socket
	http2    bool                 // serve speaks HTTP/2, with TLS
	asked    chan context.Context // what serve serves sends the context of each request here, as the server made it; nil: it does not
	server   *httptest.Server
}

// newEnv opens a Locker on backend. Everything is closed when the test ends.
func newEnv(tb testing.TB, fw Framework, backend redistest.Backend) *env {
	tb.Helper()
	return &env{Env: testenv.New(tb, backend), fw: fw}
}

// hold takes the lock of the usual route.
func (e *env) hold() *lockmw.Lease { return e.Take(lockKey) }

// route returns the usual route: POST /orders/{id}/pay, locked by the order.
func (e *env) route(handle func(x *Exchange) error) Route {
	return Route{
		Method: http.MethodPost, Path: "/orders/{id}/pay",
		Locks: e.Locks, Key: keyfunc.MustParse("order:{param.id}"), Policy: lockmw.Policy{Prefix: prefix},
		Handle: handle,
	}
}

// bodyRoute returns a route that is locked by the field id of its body.
func (e *env) bodyRoute(handle func(x *Exchange) error) Route {
	route := e.route(handle)
	route.Path, route.Key = "/orders", keyfunc.MustParse("order:{body.id}")
	return route
}

// fine is a handler that has nothing to say.
func fine(*Exchange) error { return nil }

// handler returns the framework's handler for the routes, and counts what
// runs.
func (e *env) handler(routes ...Route) http.Handler {
	for i := range routes {
		handle := routes[i].Handle
		routes[i].Handle = func(x *Exchange) error {
			e.Ran.Add(1)
			return handle(x)
		}
	}
	return e.fw.Serve(routes...)
}

// serve starts a server with the routes.
func (e *env) serve(routes ...Route) {
	e.Helper()
	handler := e.handler(routes...)
	if asked := e.asked; asked != nil {
		next := handler
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.Context()
			next.ServeHTTP(w, r)
		})
	}
	server, locks := httptest.NewUnstartedServer(handler), e.Locks
	switch {
	case e.http2:
		server.EnableHTTP2 = true
		server.StartTLS()
	case !e.inMemory:
		server.Start()
	default:
		_ = server.Listener.Close()
		listener := memnet.Listen()
		server.Listener = listener
		server.Start()
		server.Client().Transport.(*http.Transport).DialContext = listener.Dial
	}
	e.server = server
	e.Cleanup(func() {
		e.CloseNow(locks) // the server waits for requests, and they may wait for a lock
		server.Close()
	})
}
