package doortest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/lockmw/kit/keyfunc"
)

// refusedWith sends a request to a route with that template, which must be
// refused for its key, because that is as says has it.
func (e *env) refusedWith(name, template, says, query, body string, headers ...string) {
	e.Helper()
	a := e.refusedFor(name, keyfunc.MustParse(template), query, body, headers...)
	e.wantDetail(a, named(template, says))
}

// What is said of a value that is refused.
const (
	twice       = "is there more than once"
	anotherCase = "is written in another case"
	inQuery     = "is in the query as well"
	inPath      = "is missing in the body and a parameter of the route"
	notJSON     = "is to be in a JSON body, and the body is not valid JSON"
	notSaidJSON = "is to be in a JSON body, and the request does not say Content-Type: application/json"
	notInObject = "is to be in a JSON object, and something else is there"
	noScalar    = "is an object or array"
	inForm      = "is in a form in the body as well"
)

// refusedFor is refusedWith, for any key, and returns the answer.
func (e *env) refusedFor(name string, key keyfunc.Func, query, body string, headers ...string) answer {
	e.Helper()
	route := e.route(fine)
	route.Key = key
	e.serve(route)
	a := e.do(e.request(http.MethodPost, payPath+query, strings.NewReader(body), headers...))
	if a.status != http.StatusBadRequest {
		e.Errorf("%s: status %d, want 400", name, a.status)
	}
	e.wantProblem(a, http.StatusBadRequest, "LOCK_KEY_INVALID")
	return a
}

// bodyThatIsNotJSONIsRefused: each of these bodies is JSON, and a handler that
// goes by the Content-Type reads something else.
func bodyThatIsNotJSONIsRefused(e *env) {
	for kind, body := range map[string]string{
		"":                                  `{"id":7}`,
		"text/plain":                        `{"id":7}`,
		"application/octet-stream":          `{"id":7}`,
		"application/xml":                   `{"id":"7","x":"<o><id>8</id></o>"}`,
		"text/xml; charset=utf-8":           `{"id":"7","x":"<o><id>8</id></o>"}`,
		"application/x-yaml":                `{"id":7}`,
		"application/x-www-form-urlencoded": `{"id":7}`,
		"multipart/form-data; boundary=b":   `{"id":7,"x":"\r\n--b\r\n"}`,
		"application/json, text/xml":        `{"id":7}`,
		"application/json; charset":         `{"id":7}`,
		"application/jsonlines":             `{"id":7}`,
	} {
		e.refusedWith(kind, "{body.id}", notSaidJSON, "", body, "Content-Type", kind)
	}
	e.refusedWith("two types", "{body.id}", notSaidJSON, "", `{"id":7}`, "Content-Type", "application/json", "Content-Type", "text/xml")
	e.refusedWith("packed", "{body.id}", notJSON, "", "\x1f\x8b\x08{\"id\":7}", "Content-Encoding", "gzip")
	e.refusedWith("with a mark of its byte order", "{body.id}", notJSON, "", "\ufeff"+`{"id":7}`)
	e.WantRuns(0)
	e.WantUnasked()
}

func jsonMayHaveParameters(e *env) {
	e.serve(e.bodyRoute(fine))
	lease := e.Take(prefix + "order:7")
	defer e.Release(lease)
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=ISO-8859-1", "application/json ; a=b"} {
		r := e.request(http.MethodPost, "/orders", strings.NewReader(`{"id":7}`), "Content-Type", kind)
		if a := e.do(r); a.status != http.StatusConflict {
			e.Errorf("%s: status %d while the lock is held, want 409", kind, a.status)
		}
	}
	e.WantRuns(0)
}

// nameInTwoPlacesIsRefused: which of the places counts depends on the handler.
func nameInTwoPlacesIsRefused(e *env) {
	const form, parts = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n8\r\n--b--\r\n"
	}
	for _, tc := range []struct{ name, template, says, query, body, kind string }{
		{name: "field and query", template: "{body.sku}", says: inQuery, query: "?sku=8", body: `{"sku":7}`},
		{name: "field and query in another case", template: "{body.sku}", says: inQuery, query: "?SKU=8", body: `{"sku":7}`},
		{name: "field and query in another spelling", template: "{body.order_id}", says: inQuery, query: "?OrderID=8", body: `{"order_id":7}`},
		{name: "field and the same in the query", template: "{body.sku}", says: inQuery, query: "?sku=7", body: `{"sku":7}`},
		{name: "missing field", template: "k{body.sku?}", says: inQuery, query: "?sku=8", body: `{}`},
		{name: "null field", template: "k{body.sku?}", says: inQuery, query: "?sku=8", body: `{"sku":null}`},
		{name: "missing nested field", template: "k{body.item.sku?}", says: inQuery, query: "?sku=8", body: `{"item":{}}`},
		{name: "no body", template: "k{body.sku?}", says: inQuery, query: "?sku=8"},
		{name: "missing field and parameter", template: "k{body.id?}", says: inPath, body: `{}`},
		{name: "missing nested field and parameter", template: "k{body.item.id?}", says: inPath, body: `{}`},
		{name: "query and form", template: "{query.sku}", says: inForm, query: "?sku=7", body: "sku=8", kind: form},
		{name: "query and form in another case", template: "{query.sku}", says: inForm, query: "?sku=7", body: "SKU=8", kind: form},
		{name: "form alone", template: "k{query.sku?}", says: inForm, body: "sku=8", kind: form},
		{name: "query and part", template: "{query.sku}", says: inForm, query: "?sku=7", body: part("sku"), kind: parts},
		{name: "part alone", template: "k{query.sku?}", says: inForm, body: part("sku"), kind: parts},
		{name: "query in both cases", template: "{query.sku}", says: anotherCase, query: "?sku=7&SKU=8"},
		{name: "query in another case", template: "k{query.sku?}", says: anotherCase, query: "?SKU=8"},
	} {
		if tc.kind == "" {
			tc.kind = "application/json"
		}
		e.refusedWith(tc.name, tc.template, tc.says, tc.query, tc.body, "Content-Type", tc.kind)
	}
	e.WantRuns(0)
	e.WantUnasked()

	// What has nothing to do with the key.
	for _, tc := range []struct{ template, query, body, kind string }{
		{"{body.sku}", "?id=8&skus=8", `{"sku":7}`, "application/json"},
		{"{body.id}", "", `{"id":7}`, "application/json"},
		{"{body.item.sku}", "?sku=8", `{"item":{"sku":7}}`, "application/json"},
		{"{query.sku}", "?sku=7&skus=8", "skus=8", form},
		{"{query.sku}", "?sku=7", part("skus"), parts},
		{"{param.id}", "?id=8&ID=9", "id=8", form},
	} {
		route := e.route(fine)
		route.Key = keyfunc.MustParse(tc.template)
		e.serve(route)
		r := e.request(http.MethodPost, payPath+tc.query, strings.NewReader(tc.body), "Content-Type", tc.kind)
		if a := e.do(r); a.status != http.StatusOK {
			e.Errorf("%s with %s and %s: status %d, want 200", tc.template, tc.query, tc.body, a.status)
		}
	}
	e.WantRuns(6)
}

// nameWithTwoValuesIsRefused: some handlers take the first and some the last.
func nameWithTwoValuesIsRefused(e *env) {
	for _, tc := range []struct{ name, template, query, body, header string }{
		{name: "query", template: "{query.sku}", query: "?sku=7&sku=8"},
		{name: "query, escaped", template: "{query.sku}", query: "?sku=7&s%6Bu=8"},
		{name: "query, one of them empty", template: "k{query.sku?}", query: "?sku&sku=8"},
		{name: "field", template: "{body.sku}", body: `{"sku":7,"sku":8}`},
		{name: "field, escaped", template: "{body.sku}", body: `{"sku":7,"s\u006bu":8}`},
		{name: "field, one of them null", template: "k{body.sku?}", body: `{"sku":null,"sku":8}`},
		{name: "nested field", template: "{body.item.sku}", body: `{"item":{"sku":7,"sku":8}}`},
		{name: "object on the way", template: "{body.item.sku}", body: `{"item":{"sku":7},"item":{"sku":8}}`},
		{name: "header", template: "{header.X-User}", header: "ann"},
	} {
		e.refusedWith(tc.name, tc.template, twice, tc.query, tc.body, "Content-Type", "application/json", "X-User", "bob", "X-User", tc.header)
	}
	for _, tc := range []struct{ name, list, field, body string }{
		{"array", "body.ids", "{body.ids}", `{"ids":[7],"ids":[8]}`},
		{"field of an element", "body.items", "{body.items.sku}", `{"items":[{"sku":7,"sku":8}]}`},
		{"object around an array", "body.a.ids", "{body.a.ids}", `{"a":{"ids":[7]},"a":{"ids":[8]}}`},
	} {
		e.refusedFor(tc.name, keyfunc.Each(tc.list, keyfunc.MustParse(tc.field)), "", tc.body, "Content-Type", "application/json")
	}
	e.WantRuns(0)
	e.WantUnasked()
}

// longFormIsRefused: whether it has the query's name is not known.
func longFormIsRefused(e *env) {
	route := e.route(fine)
	route.Key = keyfunc.MustParse("{query.sku}")
	e.serve(route, e.bodyRoute(fine))
	long := url.Values{"x": {strings.Repeat("x", 64<<10)}}.Encode()
	for _, kind := range []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=b"} {
		a := e.do(e.request(http.MethodPost, payPath+"?sku=7", strings.NewReader(long), "Content-Type", kind))
		e.wantProblem(a, http.StatusRequestEntityTooLarge, "LOCK_KEY_INVALID")
	}
	e.WantRuns(0)
	e.WantUnasked()
	e.wantStatus(e.do(e.request(http.MethodPost, payPath+"?sku=7", strings.NewReader(long))), http.StatusOK)
}
