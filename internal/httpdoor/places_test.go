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

	"github.com/lockmw/kit/internal/door"
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
		{name: "another case in the query", query: "SKU=1", want: errCase},
		{name: "both cases in the query", query: "sku=1&Sku=2", want: errCase},
		{name: "escaped case in the query", query: "sku=1&%53ku=2", want: errCase},
		{name: "two values in the query", query: "sku=1&x=3&sku=2", want: door.ErrTwice},
		{name: "two values, one of them empty", query: "sku&sku=2", want: door.ErrTwice},
		{name: "two values and an escaped name", query: "sku=1&s%6bu=2", want: door.ErrTwice},
		{name: "the same value twice", query: "sku=1+2&sku=1%202&x=2"},
		{name: "a second value that is malformed", query: "sku=1&sku=%zz&sku=2;&sku=1"},
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

// Each asks for a value around its array once for each of up to 64 elements, and the client may have sent
// a query of a megabyte.
func TestAValueThatIsAskedForAgainIsNotLookedForAgain(t *testing.T) {
	long := strings.Repeat("%C3%A9&", mostInQuery-1)
	for name, of := range map[string]struct {
		kind, body string
		ask        func(v *Visit)
	}{
		"body": {"application/json", `{"id":1,"x":2,"y":3}`, func(v *Visit) {
			for _, path := range []string{"id", "x", "y"} {
				_, _, _ = v.Body(path)
			}
		}},
		"form":  {urlencoded, "id=1", func(v *Visit) { _, _, _ = v.Form("id") }},
		"query": {"", "", func(v *Visit) { v.CheckQuery("id") }},
	} {
		cost := func(times int) float64 {
			return testing.AllocsPerRun(3, func() {
				r := httptest.NewRequest(http.MethodPost, "/?"+long, strings.NewReader(of.body))
				r.Header.Set("Content-Type", of.kind)
				v := visit(r, 1000)
				for range times {
					of.ask(v)
				}
			})
		}
		if once, often := cost(1), cost(64); often > once+10 {
			t.Errorf("%s: %v allocations, and %v for asking 64 times", name, once, often)
		}
	}
}

// The names in a query that net/url does not read are no work for the door either, whatever the key is made of.
func TestAQueryThatNobodyReadsIsRefused(t *testing.T) {
	for pairs, want := range map[int]error{mostInQuery: nil, mostInQuery + 1: errLongQuery} {
		query := strings.Repeat("x&", pairs-1) + "x"
		if _, err := url.ParseQuery(query); (err != nil) != (want != nil) {
			t.Fatalf("net/url reads %d pairs with the error %v", pairs, err)
		}
		r := post(strings.NewReader(`{"id":1}`))
		r.URL.RawQuery = query
		if _, _, err := visit(r, 100).Body("id"); !errors.Is(err, want) {
			t.Errorf("field beside %d pairs: %v, want %v", pairs, err, want)
		}
		r = post(strings.NewReader("id=1"))
		r.Header.Set("Content-Type", urlencoded)
		r.URL.RawQuery = query
		if _, _, err := visit(r, 100).Form("id"); !errors.Is(err, want) {
			t.Errorf("form beside %d pairs: %v, want %v", pairs, err, want)
		}
		v := visit(httptest.NewRequest(http.MethodGet, "/?"+query, nil), 100)
		if v.CheckQuery("id"); !errors.Is(v.refused, want) {
			t.Errorf("query of %d pairs: %v, want %v", pairs, v.refused, want)
		}
	}
}
