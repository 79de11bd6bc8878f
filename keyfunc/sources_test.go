package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// sources are the ways to read one value called "id", with a request that has
// it. The template reads the same.
var sources = []struct {
	name    string
	f       keyfunc.Func
	request func(string) call
}{
	{"param", keyfunc.Param("id"), func(s string) call { return call{param: texts("id", s)} }},
	{"query", keyfunc.Query("id"), func(s string) call { return call{query: texts("id", s)} }},
	{"header", keyfunc.Header("id"), func(s string) call { return call{header: texts("id", s)} }},
	{"body", keyfunc.Body("id"), func(s string) call { return call{fields: texts("id", s)} }},
	{"form", keyfunc.Form("id"), func(s string) call { return call{form: texts("id", s)} }},
	{"cookie", keyfunc.Cookie("id"), func(s string) call { return call{cookie: texts("id", s)} }},
	{"value", keyfunc.Value("id"), func(s string) call { return call{values: map[string]any{"id": s}} }},
}

func TestSourceGivesItsValue(t *testing.T) {
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			wantKey(t, s.f, s.request("a:b"), "a:b")
			wantKey(t, keyfunc.MustParse("{"+s.name+".id}"), s.request("a:b"), "a:b")
		})
	}
}

func TestMissingAndEmptyValueAreErrMissing(t *testing.T) {
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			template := keyfunc.MustParse("x:{" + s.name + ".id|hash}")
			for _, r := range []call{{}, s.request("")} {
				wantErr(t, s.f, r, keyfunc.ErrMissing)
				wantErr(t, template, r, keyfunc.ErrMissing)
			}
		})
	}
}

func TestErrorsOfFormsAndCookiesAreWrapped(t *testing.T) {
	for _, f := range []keyfunc.Func{keyfunc.Form("id"), keyfunc.MustParse("{form.id?}"), keyfunc.Cookie("id"), keyfunc.MustParse("{cookie.id?}")} {
		tooLarge := &http.MaxBytesError{Limit: 5}
		_, err := f(call{formErr: tooLarge, cookieErr: tooLarge})
		if got, ok := errors.AsType[*http.MaxBytesError](err); !ok || got != tooLarge || !strings.HasPrefix(err.Error(), "keyfunc: ") {
			t.Errorf("error = %v, want it to wrap the Request's", err)
		}
	}
}

// A Request of somebody else's need not know of forms and cookies.
func TestRequestWithoutFormsAndCookies(t *testing.T) {
	type plain struct{ keyfunc.Request }
	for template, want := range map[string]string{
		"{form.id}": `keyfunc: form "id": a keyfunc_test.plain has no forms`, "{cookie.id?}": `keyfunc: cookie "id": a keyfunc_test.plain has no cookies`,
	} {
		if _, err := keyfunc.MustParse(template)(plain{call{}}); fmt.Sprint(err) != want {
			t.Errorf("error = %v\nwant    %s", err, want)
		}
	}
	wraps := wrapper{plain{wrapper{call{form: texts("id", "7")}}}}
	wantErr(t, keyfunc.Form("id"), wrapper{wrapper{call{}}}, keyfunc.ErrMissing)
	if _, err := keyfunc.Form("id")(wraps); err == nil {
		t.Error("a Request that does not tell what it is put around was looked into")
	}
	wantKey(t, keyfunc.Form("id"), wrapper{wrapper{call{form: texts("id", "7")}}}, "7")
}

// A wrapper is put around another Request, and says so.
type wrapper struct{ keyfunc.Request }

func (w wrapper) Unwrap() keyfunc.Request { return w.Request }

// halfMissing gives a value and says that there is none.
type halfMissing struct{ call }

func (halfMissing) Param(string) (string, bool) { return "leftover", false }

func TestValueThatIsNotThereIsIgnored(t *testing.T) {
	wantErr(t, keyfunc.Param("id"), halfMissing{}, keyfunc.ErrMissing)
}

func TestSourceWithoutNamePanics(t *testing.T) {
	for name, source := range map[string]func(string) keyfunc.Func{
		"param":  keyfunc.Param,
		"query":  keyfunc.Query,
		"header": keyfunc.Header,
		"body":   keyfunc.Body,
		"value":  keyfunc.Value,
	} {
		t.Run(name, func(t *testing.T) {
			got := fmt.Sprint(panicOf(t, func() { source("") }))
			if !strings.HasPrefix(got, "keyfunc: "+name+" ") {
				t.Errorf("panic = %q, want one that names %q", got, name)
			}
		})
	}
}

func TestErrorsNameTheSourceAndNotTheValue(t *testing.T) {
	const private = "s3cret"
	r := call{
		method: "POST", route: "/users/:email/:id",
		param:  texts("email", private, "id", ""),
		values: map[string]any{"email": struct{ s string }{private}, "when": unmarshalable{private}},
	}
	for _, tc := range []struct {
		f    keyfunc.Func
		want string
	}{
		{keyfunc.Param("id"), `keyfunc: required value is missing or empty: param "id"`},
		{keyfunc.MustParse("{query.id}"), `keyfunc: required value is missing or empty: query "id"`},
		{keyfunc.Params("id"), `keyfunc: required value is missing or empty: param "id"`},
		{keyfunc.Join(keyfunc.Body("a.b")), `keyfunc: required value is missing or empty: body "a.b"`},
		{keyfunc.MustParse("{param.email|int}"), `keyfunc: value cannot be used: param "email" is not an integer`},
		{keyfunc.MustParse("{param.email|uuid}"), `keyfunc: value cannot be used: param "email" is not a UUID`},
		{keyfunc.MustParse("{params|uuid}"), `keyfunc: value cannot be used: param "email" is not a UUID`},
		{keyfunc.Value("email"), `keyfunc: value cannot be used: value "email" has no usable text: its type is struct { s string }`},
		{keyfunc.Value("when"), `keyfunc: value cannot be used: value "when" has no usable text: its type is keyfunc_test.unmarshalable`},
	} {
		_, err := tc.f(r)
		if got := fmt.Sprint(err); got != tc.want {
			t.Errorf("error = %s\nwant    %s", got, tc.want)
		}
		if strings.Contains(fmt.Sprint(err), private) {
			t.Errorf("error shows the value: %v", err)
		}
	}
}

func TestErrorOfTheBodyCanBeRecognised(t *testing.T) {
	r := call{fields: texts("id", "42"), bodyErr: &http.MaxBytesError{Limit: 64 << 10}}
	for name, f := range map[string]keyfunc.Func{
		"func":     keyfunc.Body("id"),
		"template": keyfunc.MustParse("{body.id?}"),
		"join":     keyfunc.Join(keyfunc.Hash(keyfunc.Body("id"))),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f(r)
			var tooLarge *http.MaxBytesError
			if !errors.As(err, &tooLarge) || tooLarge.Limit != 64<<10 {
				t.Errorf("error = %v, want the *http.MaxBytesError of the body", err)
			}
			if !strings.Contains(fmt.Sprint(err), `body "id"`) {
				t.Errorf("error = %v, want one that names the source", err)
			}
			if errors.Is(err, keyfunc.ErrMissing) || errors.Is(err, keyfunc.ErrInvalidValue) {
				t.Errorf("error = %v, want nothing said about the value", err)
			}
		})
	}
}

func TestRouteIsMethodAndRoute(t *testing.T) {
	for _, tc := range []struct{ name, method, route, want string }{
		{"Gin and Echo", "POST", "/orders/:id", "POST /orders/:id"},
		{"net/http without method", "POST", "/orders/{id}", "POST /orders/%7Bid%7D"},
		{"net/http with method", "POST", "POST /orders/{id}", "POST /orders/%7Bid%7D"},
		{"net/http with wide blanks", "POST", "POST \t /orders", "POST /orders"},
		{"net/http with host", "POST", "POST example.com/orders", "POST example.com/orders"},
		{"HEAD on a pattern for GET", "HEAD", "GET /orders", "HEAD GET /orders"},
		{"route that begins like the method", "POST", "POSTBOX", "POST POSTBOX"},
		{"gRPC", "/shop.v1.Orders/Pay", "/shop.v1.Orders/Pay", "/shop.v1.Orders/Pay"},
		{"method with a blank", "A B", "C", "A%20B C"},
		{"method and route the same, with a blank", "A B", "A B", "A%20B"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantKey(t, keyfunc.Route(), call{method: tc.method, route: tc.route}, tc.want)
		})
	}
}

func TestRouteOfAnUnknownRouteSaysWhatToDo(t *testing.T) {
	for name, f := range map[string]keyfunc.Func{
		"Route":    keyfunc.Route(),
		"Params":   keyfunc.Params(),
		"{route}":  keyfunc.MustParse("{route}"),
		"{params}": keyfunc.MustParse("{params}"),
	} {
		t.Run(name, func(t *testing.T) {
			r := call{method: "POST"}
			wantErr(t, f, r, keyfunc.ErrMissing)
			_, err := f(r)
			if !strings.Contains(fmt.Sprint(err), "put the middleware on the route") {
				t.Errorf("error = %v, want one that tells where the middleware belongs", err)
			}
		})
	}
}

func TestRouteWithoutMethodIsErrMissing(t *testing.T) {
	wantErr(t, keyfunc.Route(), call{route: "/orders"}, keyfunc.ErrMissing)
}

func TestFuncsServeManyGoroutinesAtOnce(t *testing.T) {
	funcs := []keyfunc.Func{
		keyfunc.Const("c"),
		keyfunc.Route(),
		keyfunc.Params(),
		keyfunc.MustParse("a:{param.a|lower|hash}-{query.b?|uuid}{params}"),
		keyfunc.Join(keyfunc.Param("a"), keyfunc.Value("a")),
		keyfunc.Secret([]byte("key"), keyfunc.Hash(keyfunc.Header("a"))),
	}
	for _, f := range funcs {
		var want [2]string
		for i := range want {
			want[i] = mustKey(t, f, tuple{fmt.Sprint(i)})
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 100 {
					got, err := f(tuple{fmt.Sprint(i % 2)})
					if err != nil || got != want[i%2] {
						t.Errorf("key = %q, %v, want %q", got, err, want[i%2])
						return
					}
				}
			})
		}
		wg.Wait()
	}
}
