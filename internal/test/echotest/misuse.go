package echotest

import (
	"net/http"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func (v Version[C]) noRouteIsKnownInPre(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	e.Before(v.Lock(locks, keyfunc.Route(), lockmw.Policy{}))
	e.Route(http.MethodPost, "/", unreachable[C](t))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusInternalServerError {
		t.Errorf("status = %d, want 500", w.Code)
	}
}

// A routing is how a developer has put the middleware in place. fine is a handler
// that answers 200.
type routing[C Context] = func(e App[C], lock Middleware[C], fine func(C) error)

// A Place is what a developer has written, and what becomes of a request: its answer,
// the lock under which the handler runs, and the line in the log.
type Place[C Context] struct {
	Wrote   string
	Routing routing[C]
	Key     keyfunc.Func
	Request string // "POST /orders/42/pay", and who sends it: "POST /orders/42/pay ann"
	Answer  string // its status, and its text if that is not a problem
	Lock    string // the handler's
	Code    string // in the log
	Says    string // there
}

func routes[C Context](e App[C], fine func(C) error) {
	e.Route(http.MethodPost, "/orders/:id/pay", fine)
	e.Route(http.MethodPost, "/health", fine)
}

func onRoute[C Context](e App[C], lock Middleware[C], fine func(C) error) {
	e.Route(http.MethodPost, "/orders/:id/pay", fine, lock)
}

func onGroup[C Context](e App[C], lock Middleware[C], fine func(C) error) {
	e.Within("/orders/:id", lock, http.MethodPost, "/pay", fine)
	e.Within("/shop", lock, http.MethodPost, "/*", fine)
}

func inUse[C Context](e App[C], lock Middleware[C], fine func(C) error) {
	e.Around(lock)
	routes(e, fine)
}

func inPre[C Context](e App[C], lock Middleware[C], fine func(C) error) {
	e.Before(lock)
	routes(e, fine)
}

// inUseWithNotFound has a handler that works for paths that Echo does not know, such
// as one that hands them on to another server.
func inUseWithNotFound[C Context](e App[C], lock Middleware[C], fine func(C) error) {
	inUse(e, lock, fine)
	e.RouteNotFound("/*", fine)
}

// What stands in the log, and what Echo answers.
const (
	missing  = "keyfunc: required value is missing or empty: "
	noSuch   = " has no such parameter; it has "
	nowhere  = ": no route is known here; put the middleware on the route, not in front of the router"
	notFound = `404 {"message":"Not Found"}`
)

func (v Version[C]) placeOfTheMiddlewareIsChecked(t *testing.T) {
	param, header := keyfunc.MustParse("order:{param.id}"), keyfunc.MustParse("user:{header.X-User}")
	for _, tc := range append([]Place[C]{
		{"on its route", onRoute[C], param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"on its route, with a wrong name", onRoute[C], keyfunc.Param("order"), "POST /orders/42/pay", "500 ", "", "LOCK_MISUSE", missing + `param "order": route "/orders/:id/pay"` + noSuch + `"id"`},
		{"on its group", onGroup[C], param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"on its group, for a path that is unknown there", onGroup[C], keyfunc.Param("item"), "POST /orders/42/nothing", notFound, "", "", ""},
		{"on its group, a header, for a path that is unknown there", onGroup[C], header, "POST /orders/42/nothing", notFound, "", "", ""},
		{"on its group, for an unknown method", onGroup[C], keyfunc.Param("item"), "GET /orders/42/pay", notFound, "", "", ""},
		{"on its group, with a wrong name, for a route with a star", onGroup[C], keyfunc.Param("item"), "POST /shop/any/thing", "500 ", "", "LOCK_MISUSE", missing + `param "item": route "/shop/*"` + noSuch + `"*"`},
		{"in Use", inUse[C], param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"in Use, for a route without the parameter", inUse[C], param, "POST /health", "500 ", "", "LOCK_MISUSE", missing + `param "id": route "/health"` + noSuch + "none"},
		{"in Use, for an unknown path", inUse[C], param, "POST /nothing", notFound, "", "", ""},
		{"in Use, for an unknown method", inUse[C], param, "GET /orders/42/pay", `405 {"message":"Method Not Allowed"}`, "", "", ""},
		{"in Use, for OPTIONS", inUse[C], param, "OPTIONS /orders/42/pay", "204 ", "", "", ""},
		{"in Use, all parameters, for an unknown path", inUse[C], keyfunc.Params(), "POST /nothing", notFound, "", "", ""},
		{"in Use, the route, for an unknown path", inUse[C], keyfunc.Route(), "POST /nothing", notFound, "", "", ""},
		{"in Use, a header, for an unknown path", inUse[C], header, "POST /nothing", notFound, "", "", ""},
		{"in Use, a header", inUse[C], header, "POST /orders/42/pay", "400 ", "", "LOCK_KEY_INVALID", "invalid key: " + missing + `header "X-User"`},
		{"in Use, and RouteNotFound works, with a parameter", inUseWithNotFound[C], param, "POST /nothing", notFound, "", "", ""},
		{"in Use, and RouteNotFound works, with a header", inUseWithNotFound[C], header, "POST /nothing ann", "200 fine", "user:ann", "", ""},
		{"in Pre", inPre[C], param, "POST /orders/42/pay", "500 ", "", "LOCK_MISUSE", missing + `param "id"` + nowhere},
		{"in Pre, for an unknown path", inPre[C], param, "POST /nothing", notFound, "", "", ""},
	}, v.Places...) {
		t.Run(tc.Wrote, func(t *testing.T) {
			var log testenv.Log
			r := testenv.New(t, redistest.Embedded(t))
			locks := r.NewLocker(log.Option())
			got := ""
			e := v.New(false)
			tc.Routing(e, v.Lock(locks, tc.Key, lockmw.Policy{Name: "pay"}), func(c C) error {
				if lease, ok := lockmw.FromContext(c.Request().Context()); ok {
					got = lease.Key()
				}
				return c.String(http.StatusOK, "fine")
			})
			for range 3 {
				if answer := testenv.Ask(e, tc.Request); answer != tc.Answer {
					t.Errorf("answer = %q, want %q", answer, tc.Answer)
				}
			}
			if got != tc.Lock {
				t.Errorf("the handler ran under %q, want %q", got, tc.Lock)
			}
			r.CloseNow(locks)
			log.Want(t, "pay", tc.Code, tc.Says)
		})
	}
}
