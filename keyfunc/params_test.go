package keyfunc_test

import (
	"fmt"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

func TestParamsJoinsInTheOrderGiven(t *testing.T) {
	r := call{param: texts("shop", "berlin", "id", "4:2")}
	wantKey(t, keyfunc.Params("shop", "id"), r, "berlin:4%3A2")
	wantKey(t, keyfunc.Params("id", "shop"), r, "4%3A2:berlin")
	wantKey(t, keyfunc.Params("id"), r, "4%3A2")
}

func TestParamsWithoutNamesTakesThoseOfTheRoute(t *testing.T) {
	r := call{param: texts("id", "1", "shop", "2", "path", "/a/b", "*", "c/d", "name", "3")}
	for _, tc := range []struct{ name, route, want string }{
		{"one", "/orders/:id", "1"},
		{"several, in route order", "/shops/:shop/orders/:id/pay", "2:1"},
		{"Gin's catch-all", "/files/:id/*path", "1:/a/b"},
		{"Echo's catch-all", "/files/:id/*", "1:c/d"},
		{"Echo's catch-all inside a segment", "/static*", "c/d"},
		{"in the middle of a segment", "/user_:name/x", "3"},
		{"Echo's literal colon", `/v1/orders\:batch/:id`, "1"},
		{"net/http", "/orders/{id}", "1"},
		{"net/http with method and host", "POST example.com/shops/{shop}/orders/{id}", "2:1"},
		{"net/http with port", "localhost:8080/orders/{id}", "1"},
		{"net/http remainder", "/files/{id}/{path...}", "1:/a/b"},
		{"net/http exact end", "/orders/{id}/{$}", "1"},
		{"chi's wildcard", "/a/{id}/*", "1:c/d"},
		{"chi's wildcard without another", "/a/*", "c/d"},
		{"chi's regular expressions", "/{shop:[a-z]+}/{id:[0-9]{1,3}}/x", "2:1"},
		{"chi's regular expression with a star, and a wildcard", "/{shop:.*}/{id:\\d*}/*", "2:1:c/d"},
		{"net/http with a literal star at the end", "GET /a/{id}/*", "1"},
		{"net/http with a literal colon and star", "/v1/a:b/*/{id}/c:d", "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.route = tc.route
			wantKey(t, keyfunc.Params(), r, tc.want)
			wantKey(t, keyfunc.MustParse("{params}"), r, tc.want)
			wantKey(t, keyfunc.MustParse("x:{params}"), r, "x:"+tc.want)
		})
	}
}

func TestRouteWithoutParametersIsErrMissing(t *testing.T) {
	for _, route := range []string{"/orders", "POST /orders/{$}", "/a{b", `/a\:b`, "/shop.v1.Orders/Pay"} {
		t.Run(route, func(t *testing.T) {
			wantErr(t, keyfunc.Params(), call{route: route}, keyfunc.ErrMissing)
			_, err := keyfunc.Params()(call{route: route})
			want := fmt.Sprintf("keyfunc: required value is missing or empty: params: route %q has no parameters", route)
			if got := fmt.Sprint(err); got != want {
				t.Errorf("error = %s\nwant    %s", got, want)
			}
		})
	}
}

// chi's /a/1/x and /a/1/y are two things.
func TestParamsTellWildcardsApart(t *testing.T) {
	x := call{route: "/a/{a}/*", param: texts("a", "1", "*", "x")}
	y := call{route: "/a/{a}/*", param: texts("a", "1", "*", "y")}
	for _, f := range []keyfunc.Func{keyfunc.Params(), keyfunc.MustParse("{params}")} {
		if one, other := mustKey(t, f, x), mustKey(t, f, y); one == other {
			t.Errorf("/a/1/x and /a/1/y both give %q", one)
		}
	}
	wantErr(t, keyfunc.Params(), call{route: "/a/{a}/*", param: texts("a", "1")}, keyfunc.ErrMissing)
}

func TestParamsRefusesAMissingOne(t *testing.T) {
	wantErr(t, keyfunc.Params("shop", "id"), call{param: texts("id", "1")}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.Params("id", "shop"), call{param: texts("id", "1", "shop", "")}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.Params(), call{route: "/:id/:shop", param: texts("id", "1")}, keyfunc.ErrMissing)
}

func TestParamsWithAnEmptyNamePanics(t *testing.T) {
	got := panicOf(t, func() { keyfunc.Params("id", "") })
	want := "keyfunc: Params: name 2 is empty: no request has one, all would be refused"
	if got != want {
		t.Errorf("panic = %q, want %q", got, want)
	}
}

func TestParamsKeepsItsOwnCopyOfTheNames(t *testing.T) {
	names := []string{"id"}
	f := keyfunc.Params(names...)
	names[0] = "other"
	wantKey(t, f, call{param: texts("id", "1", "other", "2")}, "1")
}
