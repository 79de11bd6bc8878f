package keyfunc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// A vars is a call whose router does not tell its route, but the names of the
// parameters.
type vars struct {
	call
	names []string
}

var _ keyfunc.ParamRequest = vars{}

func (v vars) ParamNames() ([]string, bool) { return v.names, v.names != nil }

const (
	unknownHere = ": no route is known here; put the middleware on the route, not in front of the router"
	noSuch      = " has no such parameter; "
)

// What a developer writes for a route that has no such parameter, and what the log
// says of it. No request of any client could have the key.
func TestParameterThatTheRouteDoesNotHaveIsMisuse(t *testing.T) {
	pay := call{method: "POST", route: "/shops/:shop/orders/:id", param: texts("shop", "berlin", "id", "42")}
	plain, outside := call{method: "GET", route: "/health"}, call{method: "POST"}
	x := keyfunc.Const("x")
	for _, tc := range []struct {
		wrote string
		f     keyfunc.Func
		r     keyfunc.Request
		says  string
	}{
		{"Param of a wrong name", keyfunc.Param("order"), pay, `param "order": route "/shops/:shop/orders/:id"` + noSuch + `it has "shop", "id"`},
		{"Param in another case", keyfunc.Param("ID"), pay, `param "ID": route "/shops/:shop/orders/:id"` + noSuch + `it has "shop", "id"`},
		{"template with a wrong name", keyfunc.MustParse("order:{param.order|int}"), pay, `param "order": route "/shops/:shop/orders/:id"` + noSuch + `it has "shop", "id"`},
		{"Params with a wrong name", keyfunc.Params("shop", "order"), pay, `param "order": route "/shops/:shop/orders/:id"` + noSuch + `it has "shop", "id"`},
		{"Join with a wrong name", keyfunc.Join(x, keyfunc.Param("order")), pay, `param "order": route "/shops/:shop/orders/:id"` + noSuch + `it has "shop", "id"`},
		{"All with a wrong name", keyfunc.All(x, keyfunc.Param("order")), pay, `param "order": route "/shops/:shop/orders/:id"` + noSuch + `it has "shop", "id"`},
		{"Optional alone with a wrong name", keyfunc.Optional(keyfunc.Param("order")), pay, `param "order": route "/shops/:shop/orders/:id"` + noSuch + `it has "shop", "id" (Optional allows that in Join and All)`},
		{"wrong name in a net/http pattern", keyfunc.Param("order"), call{route: "POST /orders/{id}/{rest...}"}, `param "order": route "POST /orders/{id}/{rest...}"` + noSuch + `it has "id", "rest"`},
		{"wrong name in a chi pattern", keyfunc.Param("order"), call{route: "/orders/{id:[0-9]+}/*"}, `param "order": route "/orders/{id:[0-9]+}/*"` + noSuch + `it has "id", "*"`},
		{"Param of a route without parameters", keyfunc.Param("id"), plain, `param "id": route "/health"` + noSuch + "it has none"},
		{"Params of a route without parameters", keyfunc.Params(), plain, `params: route "/health" has no parameters`},
		{"{params} of a route without parameters", keyfunc.MustParse("a:{params}"), plain, `params: route "/health" has no parameters`},
		{"Param in front of the router", keyfunc.Param("id"), outside, `param "id"` + unknownHere},
		{"Params in front of the router", keyfunc.Params(), outside, "params" + unknownHere},
		{"Params of names in front of the router", keyfunc.Params("id"), outside, `param "id"` + unknownHere},
		{"Route in front of the router", keyfunc.Route(), outside, "route" + unknownHere},
		{"{route} in front of the router", keyfunc.MustParse("{route}"), outside, "route" + unknownHere},
		{"wrong name where the router tells names only", keyfunc.Param("order"), vars{outside, []string{"id", "shop"}}, `param "order": the route` + noSuch + `it has "id", "shop"`},
		{"Params where the router tells that there is none", keyfunc.Params(), vars{outside, []string{}}, "params: the route has no parameters"},
		{"wrong name inside Each", keyfunc.Each("body.ids", keyfunc.MustParse("{body.ids}:{param.id}")), array("ids", "1"), `param "id"` + unknownHere},
	} {
		t.Run(tc.wrote, func(t *testing.T) {
			wantErr(t, tc.f, tc.r, keyfunc.ErrMisuse)
			wantErr(t, tc.f, tc.r, keyfunc.ErrMissing)
			_, err := tc.f(tc.r)
			if got, want := fmt.Sprint(err), "keyfunc: required value is missing or empty: "+tc.says; got != want {
				t.Errorf("error = %s\nwant    %s", got, want)
			}
		})
	}
}

// What no request can be given a key for, whatever it brings. The client is not to blame.
func TestKeyThatNoRequestCanHaveIsMisuse(t *testing.T) {
	x, both := keyfunc.Const("x"), keyfunc.All(keyfunc.Const("a"), keyfunc.Const("b"))
	const around = " names 2 keys; All goes around other Funcs, or one lock would stand for all its keys"
	stored := func(v any) call { return call{values: map[string]any{"user": v}} }
	for _, tc := range []struct {
		wrote string
		f     keyfunc.Func
		r     keyfunc.Request
		says  string
	}{
		{"Each with a key that does not read its element", keyfunc.Each("body.ids", keyfunc.Param("id")), call{route: "/:id", param: texts("id", "7"), arrays: array("ids", "1").arrays}, `body "ids" is taken apart by Each, whose key does not read {body.ids}: all elements would take one lock`},
		{"Each with a slip in the path", keyfunc.Each("body.ids", keyfunc.MustParse("order:{body.id}")), call{fields: texts("id", "7"), arrays: array("ids", "1").arrays}, `body "ids" is taken apart by Each, whose key does not read {body.ids}: all elements would take one lock`},
		{"Each inside Each", keyfunc.Each("body.orders", keyfunc.Each("body.orders.ids", keyfunc.Body("orders.ids"))), array("orders", "1"), `body "orders.ids" is inside body "orders", which another Each takes apart: Each takes no arrays of arrays`},
		{"All in Join", keyfunc.Join(x, both), call{}, "part 2 of Join" + around},
		{"All in Hash", keyfunc.Hash(both), call{}, "key to Hash" + around},
		{"All in Secret", keyfunc.Secret([]byte("s"), both), call{}, "key to Secret" + around},
		{"a struct as a value", keyfunc.Value("user"), stored(struct{ Tenant string }{"berlin"}), `value "user" has no usable text: its type is struct { Tenant string }`},
		{"a float as a value", keyfunc.MustParse("{value.user}:{method}"), stored(42.0), `value "user" has no usable text: its type is float64`},
		{"a list as a value, optional", keyfunc.MustParse("{value.user?}:{method}"), stored([]string{"a"}), `value "user" has no usable text: its type is []string`},
		{"a pointer to a string as a value", keyfunc.Value("user"), stored(new("ann")), `value "user" has no usable text: its type is *string`},
	} {
		t.Run(tc.wrote, func(t *testing.T) {
			wantErr(t, tc.f, tc.r, keyfunc.ErrMisuse)
			wantErr(t, tc.f, tc.r, keyfunc.ErrInvalidValue)
			_, err := tc.f(tc.r)
			if got, want := fmt.Sprint(err), "keyfunc: value cannot be used: "+tc.says; got != want {
				t.Errorf("error = %s\nwant    %s", got, want)
			}
			if errors.Is(err, keyfunc.ErrMissing) {
				t.Errorf("error = %v Is %v: middlewares would take it for a route that is missing", err, keyfunc.ErrMissing)
			}
		})
	}
}

// What a request may lack is no mistake of the program, and neither is what is
// optional.
func TestParameterThatIsEmptyIsNoMisuse(t *testing.T) {
	empty := call{method: "GET", route: "/files/{path...}", query: texts("q", "7")}
	for _, f := range []keyfunc.Func{keyfunc.Param("path"), keyfunc.Params(), keyfunc.Params("path"), keyfunc.Query("id"), keyfunc.Value("tenant")} {
		if _, err := f(empty); !errors.Is(err, keyfunc.ErrMissing) || errors.Is(err, keyfunc.ErrMisuse) {
			t.Errorf("error = %v, want %v alone", err, keyfunc.ErrMissing)
		}
	}
	wantKey(t, keyfunc.MustParse("q:{query.q}:{param.id?}"), empty, "q:7:")
	wantKey(t, keyfunc.Join(keyfunc.Query("q"), keyfunc.Optional(keyfunc.Param("id"))), empty, "7:")
	wantKey(t, keyfunc.All(keyfunc.Query("q"), keyfunc.Optional(keyfunc.Param("id"))), empty, "7")
}

func TestParamsTakesTheNamesThatTheRouterTells(t *testing.T) {
	r := vars{call{param: texts("id", "4:2", "shop", "berlin")}, []string{"id", "shop"}}
	wantKey(t, keyfunc.Params(), r, "4%3A2:berlin")
	wantKey(t, keyfunc.MustParse("{params}"), r, "4%3A2:berlin")
	r.names, r.route = nil, "/:shop/:id" // the route tells
	wantKey(t, keyfunc.Params(), r, "berlin:4%3A2")
}
