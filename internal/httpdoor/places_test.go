package httpdoor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

func TestOnlyJSONHasFields(t *testing.T) {
	for _, tc := range []struct {
		lines []string
		want  error
	}{
		{[]string{"application/json"}, nil},
		{[]string{"application/json; charset=utf-8"}, nil},
		{[]string{"application/json;charset=ISO-8859-1;v=2"}, nil},
		{[]string{" Application/JSON\t; a=b"}, nil},
		{[]string{"application/vnd.api+json"}, nil},
		{[]string{"application/problem+JSON; charset=utf-8"}, nil},
		{nil, errType},
		{[]string{""}, errType},
		{[]string{"application/json", "application/json"}, errType},
		{[]string{"application/json", "application/xml"}, errType},
		{[]string{"application/json, application/xml"}, errType},
		{[]string{"application/json; charset"}, errType},
		{[]string{"application/json; a=1; a=2"}, errType},
		{[]string{"application/jsonx"}, errType},
		{[]string{"application/json5"}, errType},
		{[]string{"application/json+xml"}, errType},
		{[]string{"application/json-patch"}, errType},
		{[]string{"application/x-ndjson"}, errType},
		{[]string{"application/json-seq"}, errType},
		{[]string{"text/json"}, errType},
		{[]string{"text/plain"}, errType},
		{[]string{"text/xml"}, errType},
		{[]string{"application/xml"}, errType},
		{[]string{"application/x-yaml"}, errType},
		{[]string{urlencoded}, errType},
		{[]string{multipart + "; boundary=b"}, errType},
		{[]string{"application/octet-stream"}, errType},
		{[]string{"*/*"}, errType},
	} {
		r := post(strings.NewReader(`{"id":1}`))
		r.Header["Content-Type"] = tc.lines
		text, ok, err := visit(r, 100).Body("id")
		if !errors.Is(err, tc.want) || ok != (tc.want == nil) || ok && text != "1" {
			t.Errorf("%q: id = %q, %v, %v; want error %v", tc.lines, text, ok, err, tc.want)
		}
	}
}

func TestFieldWhoseNameIsInTheQueryIsRefused(t *testing.T) {
	for _, tc := range []struct {
		query, path, body string
		refused           bool
	}{
		{"", "id", `{"id":1}`, false},
		{"x=1&idx=2&i=3&d", "id", `{"id":1}`, false},
		{"=id", "id", `{"id":1}`, false},
		{"id=1", "id", `{"id":1}`, true},
		{"x=1&id", "id", `{"id":1}`, true},
		{"ID=2", "id", `{"id":1}`, true},
		{"%69d=2", "id", `{"id":1}`, true},
		{"id=%zz", "id", `{"id":1}`, true},
		{"%zz=1", "id", `{"id":1}`, false},
		{"id=2", "id", ``, true}, // a binder that goes by the Content-Type makes a form of it
		{"id=2", "id", `{}`, true},
		{"id=2", "id", `{"id":null}`, true},
		{"orderID=2", "order_id", `{"order_id":1}`, true},
		{"order-id=2", "order_id", `{}`, true},
		{"customer.id=2", "customer.id", `{"customer":{"id":1}}`, true},
		{"customer[id]=2", "customer.id", `{"customer":{"id":1}}`, true},
		{"id=2", "customer.id", `{"customer":{"id":1}}`, false},
		{"id=2", "customer.id", `{"customer":{}}`, true},
		{"customer=2", "customer.id", `{}`, false},
	} {
		r := post(strings.NewReader(tc.body))
		r.URL.RawQuery = tc.query
		_, ok, err := visit(r, 100).Body(tc.path)
		if errors.Is(err, errInQuery) != tc.refused || tc.refused == (err == nil) || err != nil && ok {
			t.Errorf("%s of %s with ?%s: ok %v, error %v; want it refused: %v", tc.path, tc.body, tc.query, ok, err, tc.refused)
		}
	}
}

func TestNamesOfAQueryAreThoseThatHandlersSee(t *testing.T) {
	for _, raw := range []string{"", "a", "a=1&b=2", "a=1&&b", "%61=1", "a+b=1", "a%20b", "%zz=1&b=1", "=1", "a=%zz", "ä=1", "a=1=2"} {
		values, _ := url.ParseQuery(raw)
		var seen []string
		queryHas(raw, func(name string) bool {
			seen = append(seen, name)
			return false
		})
		for name := range values {
			if !hasFold(seen, name) {
				t.Errorf("?%s: %q is not among the names %q", raw, name, seen)
			}
		}
	}
}

// A queryView reads one value of the query.
type queryView struct {
	keyfunc.Request
	*Visit
}

func (v queryView) Context() context.Context          { return v.Visit.Context() }
func (v queryView) Method() string                    { return v.Visit.Method() }
func (v queryView) Header(name string) (string, bool) { return v.Visit.Header(name) }

func (v queryView) Body(path string) (string, bool, error) { return v.Visit.Body(path) }

func (v queryView) Query(name string) (string, bool) {
	v.CheckQuery(name)
	values, ok := v.Outer().URL.Query()[name]
	if !ok {
		return "", false
	}
	return values[0], true
}

// enter has a request enter a door whose key is made from the query.
func enter(r *http.Request, key keyfunc.Func) error {
	const limit = 200
	v := (&Door{bodyLimit: limit, key: key}).Visit(r)
	_, err := v.keys(queryView{Visit: &v})
	return err
}

const multipartBody = "--b\r\nContent-Disposition: form-data; name=\"sku\"\r\n\r\n2\r\n--b--\r\n"

func TestQueryNameThatIsInAFormIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, query, kind, body string
		parse                   func(*http.Request)
		want                    error
	}{
		{name: "no body", query: "sku=1", kind: urlencoded},
		{name: "other names", query: "sku=1", kind: urlencoded, body: "skus=2&ku=3"},
		{name: "the same name", query: "sku=1", kind: urlencoded, body: "x=1&sku=2", want: errInForm},
		{name: "with a parameter", query: "sku=1", kind: urlencoded + "; charset=utf-8", body: "sku=2", want: errInForm},
		{name: "with a broken parameter", query: "sku=1", kind: strings.ToUpper(urlencoded) + ";=", body: "sku=2", want: errInForm},
		{name: "another case", query: "sku=1", kind: urlencoded, body: "SKU=2", want: errInForm},
		{name: "escaped", query: "sku=1", kind: urlencoded, body: "%73ku=2", want: errInForm},
		{name: "before an error", query: "sku=1", kind: urlencoded, body: "sku=2&x=%zz", want: errInForm},
		{name: "only in the form", kind: urlencoded, body: "sku=2", want: errInForm},
		{name: "in a JSON string", query: "sku=1", kind: urlencoded, body: `{"a":"&sku=2&"}`, want: errInForm},
		{name: "JSON", query: "sku=1", kind: "application/json", body: `{"sku":2}`},
		{name: "plain", query: "sku=1", kind: "text/plain", body: "sku=2"},
		{name: "parts", query: "sku=1", kind: multipart + "; boundary=b", body: multipartBody, want: errInForm},
		{name: "parts of other names", query: "sku=1", kind: multipart + "; boundary=b", body: strings.Replace(multipartBody, "sku", "skus", 1)},
		{name: "a file", query: "sku=1", kind: multipart + "; boundary=b", body: strings.Replace(multipartBody, `"sku"`, `"sku"; filename="f"`, 1), want: errInForm},
		{name: "parts without an end", query: "sku=1", kind: multipart + "; boundary=b", body: strings.TrimSuffix(multipartBody, "--b--\r\n")},
		{
			name: "parsed before", query: "sku=1", kind: urlencoded, body: "sku=2",
			parse: func(r *http.Request) { _ = r.ParseForm() }, want: errInForm,
		},
		{
			name: "parsed before, over the limit", query: "sku=1", kind: urlencoded, body: strings.Repeat("x", 201),
			parse: func(r *http.Request) { _ = r.ParseForm() },
		},
		{
			name: "half parsed before", query: "sku=1", kind: multipart + "; boundary=b", body: multipartBody,
			parse: func(r *http.Request) { _ = r.ParseForm() }, want: errInForm,
		},
		{
			name: "parts parsed before", query: "sku=1", kind: multipart + "; boundary=b", body: multipartBody,
			parse: func(r *http.Request) { _ = r.ParseMultipartForm(100) }, want: errInForm,
		},
		{name: "another case in the query", query: "SKU=1", want: errSpelling},
		{name: "both cases in the query", query: "sku=1&Sku=2", want: errSpelling},
		{name: "escaped case in the query", query: "sku=1&%53ku=2", want: errSpelling},
		{name: "other names in the query", query: "sku=1&skus=2&ku=3&sk=4"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/?"+tc.query, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", tc.kind)
		if tc.parse != nil {
			tc.parse(r)
		}
		if err := enter(r, keyfunc.MustParse("k:{query.sku?}")); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: error %v, want %v", tc.name, err, tc.want)
		}
		rest, err := io.ReadAll(r.Body)
		if err != nil || tc.parse == nil && string(rest) != tc.body {
			t.Errorf("%s: the handler reads %q, %v; want the body", tc.name, rest, err)
		}
	}
}

func TestFormOverTheLimitIsRefusedForAKeyOfTheQuery(t *testing.T) {
	for _, kind := range []string{urlencoded, multipart + "; boundary=b"} {
		for name, body := range map[string]io.Reader{
			"sized":   strings.NewReader(strings.Repeat("x", 201)),
			"unsized": unsized(strings.NewReader(strings.Repeat("x", 201))),
		} {
			r := httptest.NewRequest(http.MethodPost, "/?sku=1", body)
			r.Header.Set("Content-Type", kind)
			if _, over := errors.AsType[*http.MaxBytesError](enter(r, keyfunc.Query("sku"))); !over {
				t.Errorf("%s, %s: no *http.MaxBytesError", kind, name)
			}
		}
	}
}

func TestSkippedRequestIsNotRefused(t *testing.T) {
	err := enter(httptest.NewRequest(http.MethodPost, "/?SKU=1", nil), func(r keyfunc.Request) (string, error) {
		_, _ = r.Query("sku")
		return "", keyfunc.Skip
	})
	if !errors.Is(err, keyfunc.Skip) {
		t.Errorf("error = %v, want %v", err, keyfunc.Skip)
	}
}
