package httplock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A routing is how a developer has put the middleware in place.
type routing func(lock func(http.Handler) http.Handler, fine http.Handler) http.Handler

func onRoute(pattern string) routing {
	return func(lock func(http.Handler) http.Handler, fine http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(pattern, lock(fine))
		return mux
	}
}

// shopMux has a route with a parameter and one without.
func shopMux(handler http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", handler)
	mux.Handle("POST /health", handler)
	return mux
}

func aroundMux(lock func(http.Handler) http.Handler, fine http.Handler) http.Handler {
	return lock(shopMux(fine))
}

// aroundRouter is any router but net/http's, such as chi with Use.
func aroundRouter(lock func(http.Handler) http.Handler, fine http.Handler) http.Handler {
	return lock(http.HandlerFunc(shopMux(fine).ServeHTTP))
}

func aroundInnerMux(lock func(http.Handler) http.Handler, fine http.Handler) http.Handler {
	outer := http.NewServeMux()
	outer.Handle("/", lock(shopMux(fine)))
	return outer
}

// aroundSubRouter is what chi does for middleware of a router below another one: the
// parameters so far are known, and the pattern ends with a star.
func aroundSubRouter(lock func(http.Handler) http.Handler, fine http.Handler) http.Handler {
	below := lock(fine)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = "/orders/{id:[0-9]+}/*"
		r.SetPathValue("id", "42")
		r.SetPathValue("*", "pay")
		below.ServeHTTP(w, r)
	})
}

// otherRouter does what gorilla/mux and httprouter do: the parameters are in the
// request's context, and the request knows no pattern.
func otherRouter(found map[string]string) routing {
	return func(lock func(http.Handler) http.Handler, fine http.Handler) http.Handler {
		locked := lock(fine)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			locked.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), varsKey{}, found)))
		})
	}
}

const (
	missing  = "keyfunc: required value is missing or empty: "
	nowhere  = ": no route is known here; put the middleware on the route, not in front of the router"
	orParams = "; for parameters of a router that does not set r.PathValue there is httplock.WithParams"
	behind   = `; the mux behind the middleware has "POST /orders/{id}/pay" for this request`
	noValues = ", and net/http has no place where middleware leaves values: add httplock.WithValues(func(r *http.Request, name string) (any, bool) { … })"
)

// What a developer has written, and what becomes of a request: its answer, the lock
// under which the handler runs, and the line in the log.
func TestPlaceOfTheMiddlewareIsChecked(t *testing.T) {
	param, header := keyfunc.MustParse("order:{param.id}"), keyfunc.MustParse("user:{header.X-User}")
	withParams := []httplock.Option{httplock.WithParams(vars)}
	for _, tc := range []struct {
		wrote   string
		routing routing
		key     keyfunc.Func
		opts    []httplock.Option
		request string // "POST /orders/42/pay", and the array "ids" of its body: "POST /orders/42/pay [7]"
		status  int
		lock    string // the handler's
		code    string // in the log
		says    string // there
	}{
		{"on its route", onRoute("POST /orders/{id}/pay"), param, nil, "POST /orders/42/pay", 200, "order:42", "", ""},
		{"on its route, with a rest that is empty", onRoute("POST /files/{rest...}"), keyfunc.MustParse("{param.rest}"), nil, "POST /files/", 400, "", "LOCK_KEY_INVALID", "invalid key: " + missing + `param "rest"`},
		{"on a route with another name", onRoute("POST /orders/{order}/pay"), param, nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + `param "id": route "POST /orders/{order}/pay" has no such parameter; it has "order"`},

		{"around the mux", aroundMux, param, nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + `param "id"` + nowhere + behind},
		{"around the mux, all parameters", aroundMux, keyfunc.MustParse("order:{params}"), nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + "params" + nowhere + behind},
		{"around the mux, the route", aroundMux, keyfunc.Route(), nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + "route" + nowhere + behind},
		{"around the mux, for an unknown path", aroundMux, param, nil, "POST /nothing", 404, "", "", ""},
		{"around the mux, for an unknown method", aroundMux, param, nil, "GET /orders/42/pay", 405, "", "", ""},
		{"around the mux, with a header", aroundMux, header, nil, "POST /orders/42/pay", 400, "", "LOCK_KEY_INVALID", "invalid key: " + missing + `header "X-User"`},
		{"around the mux, with a header, for an unknown path", aroundMux, header, nil, "POST /nothing", 404, "", "", ""},
		{"around the mux, what needs no route", aroundMux, keyfunc.Const("all"), nil, "POST /orders/42/pay", 200, "all", "", ""},
		{"around the mux, what is optional", aroundMux, keyfunc.MustParse("{method}:{param.id?}"), nil, "POST /orders/42/pay", 200, "POST:", "", ""},
		{"around a mux that is in another one", aroundInnerMux, param, nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + `param "id": route "/" has no such parameter; it has none` + behind},
		{"around another router", aroundRouter, param, nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + `param "id"` + nowhere + orParams},
		{"around another router, for an unknown path", aroundRouter, param, nil, "POST /nothing", 500, "", "LOCK_MISUSE", missing + `param "id"` + nowhere + orParams},

		{"in a router below another one", aroundSubRouter, keyfunc.Params(), nil, "POST /orders/42/pay", 200, "42:pay", "", ""},
		{"in a router below another one, with a wrong name", aroundSubRouter, keyfunc.Param("order"), nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + `param "order": route "/orders/{id:[0-9]+}/*" has no such parameter; it has "id", "*"`},

		{"another router without WithParams", otherRouter(map[string]string{"id": "42"}), param, nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + `param "id"` + nowhere + orParams},
		{"another router with WithParams", otherRouter(map[string]string{"id": "4:2"}), param, withParams, "POST /orders/42/pay", 200, "order:4%3A2", "", ""},
		{"another router, all parameters", otherRouter(map[string]string{"shop": "berlin", "id": "42"}), keyfunc.Params(), withParams, "POST /orders/42/pay", 200, "42:berlin", "", ""},
		{"another router, a wrong name", otherRouter(map[string]string{"shop": "berlin", "id": "42"}), keyfunc.Param("order"), withParams, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + `param "order": the route has no such parameter; it has "id", "shop"`},
		{"another router, an empty parameter", otherRouter(map[string]string{"id": ""}), param, withParams, "POST /orders//pay", 400, "", "LOCK_KEY_INVALID", "invalid key: " + missing + `param "id"`},
		{"another router, a route without parameters", otherRouter(nil), param, withParams, "POST /health", 500, "", "LOCK_MISUSE", missing + `param "id": the route has no such parameter; it has none`},
		{"another router, all parameters of such a route", otherRouter(map[string]string{}), keyfunc.Params(), withParams, "POST /health", 500, "", "LOCK_MISUSE", missing + "params: the route has no parameters"},
		{"another router, the route", otherRouter(map[string]string{"id": "42"}), keyfunc.MustParse("{route}"), withParams, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", missing + "route" + nowhere},
		{"another router, a name in the body and in the path", otherRouter(map[string]string{"id": "42"}), keyfunc.Body("id"), withParams, "POST /orders/42/pay", 400, "", "LOCK_KEY_INVALID", `invalid key: keyfunc: body "id": is missing in the body and a parameter of the route, which is where some readers look as well`},

		{"a value of a type without text", onRoute("POST /orders/{id}/pay"), keyfunc.MustParse("{value.user}:{param.id}"), valueOf(struct{ Tenant string }{"berlin"}), "POST /orders/42/pay", 500, "", "LOCK_MISUSE", `keyfunc: value cannot be used: value "user" has no usable text: its type is struct { Tenant string }`},
		{"a value that is nil", onRoute("POST /orders/{id}/pay"), keyfunc.MustParse("{value.user}:{param.id}"), valueOf(nil), "POST /orders/42/pay", 400, "", "LOCK_KEY_INVALID", "invalid key: " + missing + `value "user"`},
		{"a value that is nil, optional", onRoute("POST /orders/{id}/pay"), keyfunc.MustParse("{value.user?}:{param.id}"), valueOf(nil), "POST /orders/42/pay", 200, ":42", "", ""},
		{"Each with a slip in the path", onRoute("POST /orders/{id}/pay"), keyfunc.Each("body.ids", keyfunc.Param("id")), nil, "POST /orders/42/pay [1]", 500, "", "LOCK_MISUSE", `keyfunc: value cannot be used: body "ids" is taken apart by Each, whose key does not read {body.ids}: all elements would take one lock`},
		{"Each of arrays in arrays", onRoute("POST /orders/{id}/pay"), keyfunc.Each("body.ids", keyfunc.Each("body.ids.x", keyfunc.Body("ids.x"))), nil, "POST /orders/42/pay [{\"x\":[1]}]", 500, "", "LOCK_MISUSE", `keyfunc: value cannot be used: body "ids.x" is inside body "ids", which another Each takes apart: Each takes no arrays of arrays`},
		{"All in Join", onRoute("POST /orders/{id}/pay"), keyfunc.Join(keyfunc.Param("id"), keyfunc.All(keyfunc.Const("a"), keyfunc.Const("b"))), nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", `keyfunc: value cannot be used: part 2 of Join names 2 keys; All goes around other Funcs, or one lock would stand for all its keys`},

		{"a function that needs a value for some requests", onRoute("POST /orders/{id}/pay"), sometimes(keyfunc.Value("tenant")), nil, "POST /orders/42/pay", 500, "", "LOCK_MISUSE", `keyfunc: mistake of the program: the key reads the value "tenant"` + noValues},
	} {
		t.Run(tc.wrote, func(t *testing.T) {
			var log testenv.Log
			r := testenv.New(t, redistest.Embedded(t))
			locks := r.NewLocker(log.Option())
			got := ""
			fine := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if lease, ok := lockmw.FromContext(r.Context()); ok {
					got = lease.Key()
				}
			})
			handler := tc.routing(httplock.Middleware(locks, tc.key, lockmw.Policy{Name: "pay"}, tc.opts...), fine)
			method, path, _ := strings.Cut(tc.request, " ")
			path, ids, _ := strings.Cut(path, " ")
			body := `{}`
			if ids != "" {
				body = `{"ids":` + ids + `}`
			}
			for range 3 {
				w := httptest.NewRecorder()
				request := httptest.NewRequest(method, path, strings.NewReader(body))
				request.Header.Set("Content-Type", "application/json")
				handler.ServeHTTP(w, request)
				if w.Code != tc.status {
					t.Errorf("status = %d, want %d: %s", w.Code, tc.status, w.Body)
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

// valueOf has every value of a request be v.
func valueOf(v any) []httplock.Option {
	return []httplock.Option{httplock.WithValues(func(*http.Request, string) (any, bool) { return v, true })}
}

// sometimes is a key function that does not read what key does, unless a request is
// for /orders/42/pay.
func sometimes(key keyfunc.Func) keyfunc.Func {
	return func(r keyfunc.Request) (string, error) {
		if id, _ := r.Param("id"); id != "42" {
			return "x", nil
		}
		return key(r)
	}
}

// What a developer writes in the belief that net/http has values, and what the program
// says at its start.
func TestValueWithoutWithValuesPanicsAtTheStart(t *testing.T) {
	locks, _ := testenv.Locker(t)
	native := httplock.Key(func(r *http.Request) (string, error) { return r.RemoteAddr, nil })
	values := httplock.WithValues(func(r *http.Request, _ string) (any, bool) { return r.Header.Get("X-Tenant"), true })
	for wrote, key := range map[string]keyfunc.Func{
		"{value.tenant}":                      keyfunc.MustParse("{value.tenant}"),
		"behind a parameter":                  keyfunc.MustParse("{param.id|int}:{value.tenant}"),
		"behind all parameters":               keyfunc.MustParse("{params|uuid}:{value.tenant}"),
		"behind everything else":              keyfunc.MustParse("{route}:{query.a}:{header.b}:{body.c}:{form.d}:{cookie.e}:{value.tenant}"),
		"where it is optional":                keyfunc.MustParse("{param.id}:{value.tenant?}"),
		"Value in Join":                       keyfunc.Join(keyfunc.Value("tenant"), keyfunc.Param("id")),
		"Value behind a function of httplock": keyfunc.Join(native, keyfunc.Value("tenant")),
		"Value in All":                        keyfunc.All(keyfunc.Param("id"), keyfunc.Value("tenant")),
		"Value for each element":              keyfunc.Each("body.ids", keyfunc.MustParse("{body.ids}:{value.tenant}")),
		"Value in Optional":                   keyfunc.Optional(keyfunc.Value("tenant")),
		"Value in Secret":                     keyfunc.Secret([]byte("s"), keyfunc.Value("tenant")),
	} {
		t.Run(wrote, func(t *testing.T) {
			want := `httplock: Middleware: the key reads the value "tenant"` + noValues
			if got := panicOf(func() { httplock.Middleware(locks, key, lockmw.Policy{}) }); got != want {
				t.Errorf("panic = %s\nwant    %s", got, want)
			}
			if got := panicOf(func() { httplock.Middleware(locks, key, lockmw.Policy{}, values) }); got != "" {
				t.Errorf("with WithValues: panic = %s, want none", got)
			}
		})
	}
	for want, option := range map[string]func() httplock.Option{
		"httplock: WithValues: the function is nil": func() httplock.Option { return httplock.WithValues(nil) },
		"httplock: WithParams: the function is nil": func() httplock.Option { return httplock.WithParams(nil) },
	} {
		if got := panicOf(func() { httplock.Middleware(locks, keyfunc.Const("x"), lockmw.Policy{}, option()) }); got != want {
			t.Errorf("panic = %q, want %q", got, want)
		}
	}
}

// A key function of one's own is called once at the start, with a request that is made
// up. What it does then says nothing about requests.
func TestStartSurvivesWhatFunctionsDo(t *testing.T) {
	locks, _ := testenv.Locker(t)
	for name, key := range map[string]keyfunc.Func{
		"panics": func(keyfunc.Request) (string, error) { panic("not yet") },
		"fails":  func(keyfunc.Request) (string, error) { return "", keyfunc.ErrMisuse },
		"skips":  func(keyfunc.Request) (string, error) { return "", keyfunc.Skip },
	} {
		if got := panicOf(func() { httplock.Middleware(locks, key, lockmw.Policy{}) }); got != "" {
			t.Errorf("%s: panic %q", name, got)
		}
	}
}

func panicOf(f func()) (text string) {
	defer func() {
		if value := recover(); value != nil {
			text = fmt.Sprint(value)
		}
	}()
	f()
	return ""
}

func TestParamsAreAskedForOnce(t *testing.T) {
	locks, _ := testenv.Locker(t)
	asked := 0
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.a}:{param.b}:{param.c?}:{params}"), lockmw.Policy{},
		httplock.WithParams(func(*http.Request) map[string]string {
			asked++
			return map[string]string{"b": "2", "a": "1"}
		}))
	w, key := httptest.NewRecorder(), ""
	lock(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		lease, _ := lockmw.FromContext(r.Context())
		key = lease.Key()
	})).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusOK || asked != 1 || key != "1:2::1:2" {
		t.Errorf("status %d, key %q, asked %d times; want 200, 1:2::1:2 and once", w.Code, key, asked)
	}
}

// One name in two routes: the key is the outer one's, and the handler sees the inner one's.
func TestOneNameInTwoRoutesIsTold(t *testing.T) {
	const says = `keyfunc: mistake of the program: httplock: the key is made of the parameter "id" of route %q, and route %q behind it has another parameter of that name, which its handler sees: give one of them another name, or put the middleware on the inner route`
	for _, tc := range []struct {
		outer, key, inner, path string
		told                    bool
	}{
		{"/shops/{id}/", "{param.id}", "POST /shops/{shop}/orders/{id}", "/shops/1/orders/42", true},
		{"/shops/{id}/", "{param.id}", "POST /shops/{shop}/orders/{order}", "/shops/1/orders/42", false},
		{
			"/{country}/{shop}/{id}/", "{param.country}-{param.shop}-{param.id}-{param.id}",
			"POST /{country}/{shop}/{order}/{id}", "/de/1/42/7", true,
		},
	} {
		var log testenv.Log
		r := testenv.New(t, redistest.Embedded(t))
		locks := r.NewLocker(log.Option())
		inner, outer := http.NewServeMux(), http.NewServeMux()
		inner.HandleFunc(tc.inner, func(http.ResponseWriter, *http.Request) {})
		outer.Handle(tc.outer, httplock.Middleware(locks, keyfunc.MustParse(tc.key), lockmw.Policy{Name: "pay"})(inner))
		for range 3 {
			if answer := testenv.Ask(outer, "POST "+tc.path); answer != "200 " {
				t.Errorf("answer = %q, want the handler's", answer)
			}
		}
		r.CloseNow(locks)
		if tc.told {
			log.Want(t, "pay", "LOCK_MISUSE", fmt.Sprintf(says, tc.outer, tc.inner))
		} else {
			log.Want(t, "pay", "", "")
		}
	}
}
