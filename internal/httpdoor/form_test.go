package httpdoor

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/door"
)

func TestFormIsWhatEveryHandlerSees(t *testing.T) {
	const parts = multipart + "; boundary=b"
	for _, tc := range []struct {
		name, method, query, kind, body string
		parse                           func(*http.Request)
		missing                         bool
		want                            error
	}{
		{name: "URL-encoded", kind: urlencoded, body: "x=1&sku=2"},
		{name: "with a parameter", kind: urlencoded + "; charset=utf-8", body: "sku=2"},
		{name: "in capitals", kind: strings.ToUpper(urlencoded), body: "sku=2"},
		{name: "PUT", method: http.MethodPut, kind: urlencoded, body: "sku=2"},
		{name: "PATCH", method: http.MethodPatch, kind: parts, body: multipartBody},
		{name: "parts", kind: parts, body: multipartBody},
		{name: "the same twice", kind: urlencoded, body: "sku=2&sku=2"},
		{name: "another query", query: "skus=2", kind: urlencoded, body: "sku=2"},
		{name: "no body", kind: urlencoded, missing: true},
		{name: "no body and no type", missing: true},
		{name: "another name", kind: urlencoded, body: "skus=2", missing: true},
		{name: "no type", body: "sku=2", want: errNoForm},
		{name: "JSON", kind: "application/json", body: `{"sku":2}`, want: errNoForm},
		{name: "a broken type", kind: urlencoded + ";=", body: "sku=2", want: errNoForm},
		{name: "DELETE", method: http.MethodDelete, kind: urlencoded, body: "sku=2", want: errFormMethod},
		{name: "GET", method: http.MethodGet, kind: parts, body: multipartBody, want: errFormMethod},
		{name: "different values", kind: urlencoded, body: "sku=2&sku=3", want: door.ErrTwice},
		{name: "another case", kind: urlencoded, body: "sku=2&SKU=3", want: errCase},
		{name: "only another case", kind: urlencoded, body: "Sku=3", want: errCase},
		{name: "a file", kind: parts, body: strings.Replace(multipartBody, `"sku"`, `"sku"; filename="f"`, 1), want: errFile},
		{name: "a file in another case", kind: parts, body: strings.Replace(multipartBody, `"sku"`, `"SKU"; filename="f"`, 1), want: errCase},
		{name: "in the query as well", query: "sku=2", kind: urlencoded, body: "sku=2", want: errInQuery},
		{name: "in the query in another spelling", query: "s_K[u]=2", kind: urlencoded, body: "sku=2", want: errInQuery},
		{name: "only in the query", query: "sku=2", kind: urlencoded, want: errInQuery},
		{name: "a broken escape", kind: urlencoded, body: "sku=2&x=%zz", want: errBrokenForm},
		{name: "a semicolon", kind: urlencoded, body: "sku=2;x=1", want: errBrokenForm},
		{name: "half of the parts", kind: parts, body: strings.TrimSuffix(multipartBody, "--b--\r\n"), want: errBrokenForm},
		{name: "no boundary", kind: multipart, body: multipartBody, want: errBrokenForm},
		{name: "parsed before", kind: urlencoded, body: "sku=2", parse: func(r *http.Request) { _ = r.ParseForm() }},
		{name: "half parsed before", kind: parts, body: multipartBody, parse: func(r *http.Request) { _ = r.ParseForm() }},
		{name: "parts parsed before", kind: parts, body: multipartBody, parse: func(r *http.Request) { _ = r.ParseMultipartForm(100) }},
	} {
		method := tc.method
		if method == "" {
			method = http.MethodPost
		}
		r := httptest.NewRequest(method, "/?"+tc.query, strings.NewReader(tc.body))
		if tc.kind != "" {
			r.Header.Set("Content-Type", tc.kind)
		}
		if tc.parse != nil {
			tc.parse(r)
		}
		v := visit(r, 200)
		for range 2 { // asked again, the same
			text, ok, err := v.Form("sku")
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || ok != (err == nil && !tc.missing) || ok && text != "2" {
				t.Errorf("%s: sku = %q, %v, %v; want error %v", tc.name, text, ok, err, tc.want)
			}
		}
		if tc.parse == nil {
			if got := readAll(t, r.Body); got != tc.body {
				t.Errorf("%s: the handler reads %q, want the body", tc.name, got)
			}
		}
	}
}

func TestFormOverTheLimitIsRefused(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", unsized(strings.NewReader("sku=2&"+strings.Repeat("x", 200))))
	r.Header.Set("Content-Type", urlencoded)
	_, _, err := visit(r, 200).Form("sku")
	if _, over := errors.AsType[*http.MaxBytesError](err); !over {
		t.Errorf("error = %v, want an *http.MaxBytesError", err)
	}
}

func TestFormFieldThatOnlyTheRouteHasIsRefused(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.SetPathValue("sku", "2")
	v := visit(r, 200)
	v.view = pathView{v}
	if _, _, err := v.Form("sku"); !errors.Is(err, errInPath) {
		t.Errorf("error = %v, want %v", err, errInPath)
	}
}

// A pathView has the parameters of the route.
type pathView struct{ *Visit }

func (pathView) Route() string            { return "" }
func (pathView) Value(string) (any, bool) { return nil, false }

func (pathView) Query(string) (string, bool) { return "", false }

func (v pathView) Param(name string) (string, bool) {
	value := v.Outer().PathValue(name)
	return value, value != ""
}

func TestCookieIsWhatEveryHandlerSees(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string
		value string
		want  error
	}{
		{name: "none"},
		{name: "another name", lines: []string{"ID=7; xid=8"}},
		{name: "one", lines: []string{"x=1; id=7"}, value: "7"},
		{name: "quoted", lines: []string{`id="a b"`}, value: "a b"},
		{name: "the same twice", lines: []string{"id=7; id=7"}, value: "7"},
		{name: "in the second line", lines: []string{"x=1", "id=7"}, value: "7"},
		{name: "two", lines: []string{"id=7; id=8"}, want: door.ErrTwice},
		{name: "two in two lines", lines: []string{"id=7", "id=8"}, want: door.ErrTwice},
		{name: "an empty one and another", lines: []string{"id=; id=8"}, want: door.ErrTwice},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Cookie"] = tc.lines
		value, ok, err := visit(r, 100).Cookie("id")
		if value != tc.value || ok != (tc.value != "") || !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: id = %q, %v, %v; want %q, %v", tc.name, value, ok, err, tc.value, tc.want)
		}
	}
}
