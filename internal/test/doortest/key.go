package doortest

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func requestWithoutAKeyIsRefused(e *env) {
	long := strings.Repeat("x", 9<<10)
	const nested = 10000 // one more than encoding/json reads
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, tc := range []struct {
		name     string
		template string
		path     string // empty: payPath
		query    string
		body     string
		headers  []string
		says     string // of the value
	}{
		{name: "parameter that is escaped still", template: "{param.id}", says: "is escaped more than once", path: "/orders/4%2532/pay"},
		{name: "no query", template: "{query.sku}", says: "is missing"},
		{name: "empty query", template: "{query.sku}", query: "?sku=", says: "is missing"},
		{name: "malformed query", template: "{query.sku}", query: "?sku=%zz", says: "is missing"},
		{name: "query with a semicolon", template: "{query.sku}", query: "?a=1;sku=7", says: "is missing"},
		{name: "query in another case", template: "{query.sku}", query: "?SKU=7", says: anotherCase},
		{name: "long query", template: "{query.sku}", query: "?sku=" + long, says: "is longer than 8 KiB"},
		{name: "no number", template: "{query.sku|int}", query: "?sku=7a", says: "is not an integer"},
		{name: "no UUID", template: "{query.sku|uuid}", query: "?sku=7", says: "is not a UUID"},
		{name: "no header", template: "{header.X-User}", says: "is missing"},
		{name: "empty header", template: "{header.X-User}", headers: []string{"X-User", ""}, says: "is missing"},
		{name: "no value", template: "{value.tenant}", says: "is missing"},
		{name: "no body", template: "{body.id}", says: inPath},
		{name: "no JSON", template: "{body.id}", says: notJSON, body: "id=7"},
		{name: "half a body", template: "{body.id}", says: notJSON, body: `{"id":7`},
		{name: "garbage after the body", template: "{body.id}", says: notJSON, body: `{"id":7}]`},
		{name: "two bodies", template: "{body.id}", says: notJSON, body: `{"id":7}{"id":8}`},
		{name: "an array", template: "{body.id}", says: notInObject, body: `[{"id":7}]`},
		{name: "a scalar", template: "{body.id}", says: notInObject, body: `7`},
		{name: "missing field", template: "{body.id}", says: inPath, body: `{"x":7}`},
		{name: "empty field", template: "{body.id}", body: `{"id":""}`, says: "is missing"},
		{name: "null field", template: "{body.id}", says: inPath, body: `{"id":null}`},
		{name: "object field", template: "{body.id}", says: noScalar, body: `{"id":{"id":7}}`},
		{name: "array field", template: "{body.id}", says: noScalar, body: `{"id":[7]}`},
		{name: "scalar on the way", template: "{body.a.id}", body: `{"a":7}`, says: notInObject},
		{name: "no body, and no parameter", template: "{body.ref}", says: "is missing"},
		{name: "missing field, and no parameter", template: "{body.ref}", body: `{"x":7}`, says: "is missing"},
		{name: "null field, and no parameter", template: "{body.ref}", body: `{"ref":null}`, says: "is missing"},
		{name: "field in another case", template: "{body.id}", says: anotherCase, body: `{"ID":7}`},
		{name: "field in both cases", template: "{body.id}", says: anotherCase, body: `{"id":7,"ID":8}`},
		{name: "number of too many digits", template: "{body.id}", says: "is a number with too many digits", body: `{"id":7.00000000000000000001}`},
		{name: "deep body", template: "{body.id}", says: notJSON, body: `{"id":7,"x":` + strings.Repeat("[", nested) + strings.Repeat("]", nested) + "}"},
		{name: "long field", template: "{body.id}", body: `{"id":"` + long + `"}`, says: "is longer than 8 KiB"},
		{name: "no form", template: "{form.id}", says: inPath},
		{name: "missing form field", template: "{form.id}", says: inPath, body: "x=7", headers: form},
		{name: "missing form field, and no parameter", template: "{form.ref}", body: "x=7", headers: form, says: "is missing"},
		{name: "form that does not say so", template: "{form.id}", says: "is to be in a form, and the request does not say that its body is one", body: "id=7"},
		{name: "form field in the query as well", template: "{form.id}", says: inQuery, query: "?ID=7", body: "id=7", headers: form},
		{name: "form field twice", template: "{form.id}", says: twice, body: "id=7&id=8", headers: form},
		{name: "form field in another case", template: "{form.id}", says: anotherCase, body: "id=7&Id=7", headers: form},
		{name: "broken form", template: "{form.id}", says: "is to be in a form, and the body is a broken one", body: "id=7&x=%zz", headers: form},
		{name: "no cookie", template: "{cookie.id}", headers: []string{"Cookie", "ID=7"}, says: "is missing"},
		{name: "cookie twice", template: "{cookie.id}", says: twice, headers: []string{"Cookie", "id=7; id=8"}},
		{name: "form as well", template: "{body.id}", says: notSaidJSON, body: `{"a":"&id=8&","id":7}`, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}},
	} {
		route := e.route(fine)
		route.Key = keyfunc.MustParse(tc.template)
		e.serve(route)
		a := e.do(e.request(http.MethodPost, cmp.Or(tc.path, payPath)+tc.query, strings.NewReader(tc.body), tc.headers...))
		if a.status != http.StatusBadRequest {
			e.Errorf("%s: status %d", tc.name, a.status)
		}
		e.wantProblem(a, http.StatusBadRequest, "LOCK_KEY_INVALID")
		e.wantDetail(a, named(tc.template, tc.says))
	}
	e.requestIsNotToldWhatHasNoName()
	e.WantRuns(0)
	e.WantUnasked()
}

// named is what is said of the value that a template of one placeholder names.
func named(template, says string) string {
	_, placeholder, _ := strings.Cut(template, "{")
	source, name, _ := strings.Cut(strings.TrimRight(placeholder, "?}"), ".")
	called := map[string]string{
		"param": "parameter", "query": "query parameter", "header": "header", "body": "body field", "form": "form field", "cookie": "cookie", "value": "value",
	}[source]
	name, _, _ = strings.Cut(name, "|")
	return fmt.Sprintf("the %s %q %s", called, name, says)
}

// requestIsNotToldWhatHasNoName: what a key function of the program's own says of a request is not
// for clients, and neither is the type of a value. A part of All and Join that has a name is told.
func (e *env) requestIsNotToldWhatHasNoName() {
	e.Helper()
	const nothing = "a parameter, header or body field is missing or cannot be used"
	native := e.fw.Key(func(r *http.Request) (string, error) { return strings.Repeat(r.URL.Query().Get("k"), 9<<10), nil })
	own := func(keyfunc.Request) (string, error) { return "", errors.New("user 7 has been deleted") }
	for _, tc := range []struct {
		key  keyfunc.Func
		says string
	}{
		{native, nothing},
		{own, nothing},
		{keyfunc.Join(keyfunc.Const("a"), own), nothing},
		{keyfunc.Join(keyfunc.Const("a"), func(keyfunc.Request) (string, error) { return "", nil }), nothing},
		{keyfunc.Value("user"), `the value "user" cannot be used`},
		{keyfunc.All(keyfunc.Const("a"), keyfunc.Hash(keyfunc.Query("to"))), `the query parameter "to" is missing`},
		{keyfunc.Each("body.ids", keyfunc.Body("ids.sku")), `the body field "ids.sku" is missing`},
		{keyfunc.Each("body.many", keyfunc.Body("many")), `the body field "many" has more than 64 elements`},
		{keyfunc.Each("body.k", keyfunc.Body("k")), `the body field "k" is in the query as well`},
	} {
		route := e.route(fine)
		route.Key = tc.key
		route.Values = map[string]any{"user": textless{}}
		e.serve(route)
		body := `{"ids":[{"x":7}],"many":[1` + strings.Repeat(",1", 64) + "]}"
		a := e.do(e.request(http.MethodPost, payPath+"?k=7", strings.NewReader(body)))
		e.wantProblem(a, http.StatusBadRequest, "LOCK_KEY_INVALID")
		e.wantDetail(a, tc.says)
	}
}

// A textless value has no text that could be part of a key.
type textless struct{}

func (textless) MarshalText() ([]byte, error) { return nil, errors.New("user 7 has been deleted") }

// spellings are request targets for GET /o/{id}, of which several name the
// same thing to one framework or another.
var spellings = []string{
	"/o/42", "/o/%34%32", "/o/4%32", "/o/42/", "/o//42", "//o/42", "/o/./42", "/o/x/../42", "/o/42%2F", "/o/42%2f", "/o/%2F42",
	"/o/a:b", "/o/a%3Ab", "/o/a%3ab", "/o/a+b", "/o/a+%3Ab", "/o/a%20b", "/o/a%2Bb", "/o/a%25b", "/o/a%252Fb", "/o/a%2Fb", "/o/a%5Cb",
	"/o/%C3%A4", "/o/%c3%a4", "/o/\xc3\xa4", "/o/%FF", "/o/a%00b", "/o/a%0Ab", "/o/a;b", "/o/a,b", "/o/a=b&c", "/o/~42", "/o/%7E42",
	"/O/42", "/o/%zz", "/o/{id}", "/o/%7Bid%7D", "/o/:id", "/o/.", "/o/%2E%2E", "/o/",
	"/o/42?q=1", "/o/42?q=1&q=2", "/o/42?q=%31", "/o/42?q=a+b", "/o/42?q=a%20b", "/o/42?q=a%2Bb", "/o/42?q=%zz", "/o/42?q=%zz&q=2",
	"/o/42?q=1;q=2", "/o/42?Q=1", "/o/42?q", "/o/42?q=", "/o/42?%71=1", "/o/42?q=1#q=2", "/o/%34%32?q=%C3%A4", "/o/42??q=1", "/o/42?&&q=1", "/o/42?q=1=2",
}

// Spellings returns them, as seeds for a fuzzer.
func Spellings() []string { return slices.Clone(spellings) }

// leastServed is how many of the spellings every framework's router finds the
// route for. It keeps the case from passing because nothing ran.
const leastServed = 40

func keySeesWhatTheHandlerSees(e *env) {
	type view struct{ param, query string }
	var inKey, inHandler *view
	route := e.route(func(x *Exchange) error {
		inHandler = &view{x.Param("id"), x.Query("q")}
		return nil
	})
	route.Method, route.Path = http.MethodGet, "/o/{id}"
	route.Key = func(r keyfunc.Request) (string, error) {
		v := view{}
		v.param, _ = r.Param("id")
		v.query, _ = r.Query("q")
		inKey = &v
		return "spelling", nil
	}
	e.serve(route)
	for _, target := range spellings {
		inKey, inHandler = nil, nil
		status := e.raw(target)
		switch {
		case inHandler == nil: // no such route, not even a request, or refused
			if status < 300 {
				e.Errorf("%q: status %d, and no handler ran", target, status)
			}
		case inKey == nil:
			e.Errorf("%q: the handler saw %+q, and there was no key", target, *inHandler)
		case *inKey != *inHandler:
			e.Errorf("%q: the key saw %+q, the handler %+q", target, *inKey, *inHandler)
		}
	}
	got := e.Ran.Load()
	if got < leastServed {
		e.Errorf("only %d of %d spellings were served", got, len(spellings))
	}
	e.Logf("%d of %d spellings were served, the rest refused", got, len(spellings))
}

// raw sends a GET whose target no client library has tidied up, and returns
// the status.
func (e *env) raw(target string) int {
	e.Helper()
	conn := e.connect()
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n", target); err != nil {
		e.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		e.Fatalf("%q: %v", target, err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// held returns a handler that notes which lock is held while it runs.
func (e *env) held(key *string) func(*Exchange) error {
	return func(x *Exchange) error {
		*key = ""
		if lease, found := lockmw.FromContext(x.R.Context()); found {
			*key = lease.Key()
		}
		return nil
	}
}

func everySourceOfAKeyWorks(e *env) {
	for _, tc := range []struct {
		template, want string
		body, kind     string
	}{
		{template: "{param.id}", want: id},
		{template: "{params}", want: id},
		{template: "{method} {query.sku}", want: "POST first"},
		{template: "{header.X-User}", want: "ann"},
		{template: "{header.x-user|lower}", want: "ann"},
		{template: "{header.host}", want: "shop.test"},
		{template: "{body.a.b}", want: "7"},
		{template: "{query.no?}-{body.no?}-{header.no?}-{body.a.b}", want: "---7"},
		{template: "{value.tenant}", want: "blue"},
		{template: "{cookie.session}-{cookie.no?}", want: "s7-"},
		{template: "{form.sku}", want: "x:7", body: "a=1&sku=x%3A7&b", kind: "application/x-www-form-urlencoded"},
		{template: "{form.sku}-{form.no?}", want: "7-", body: "--b\r\nContent-Disposition: form-data; name=\"sku\"\r\n\r\n7\r\n--b--\r\n", kind: "multipart/form-data; boundary=b"},
	} {
		var got string
		noteKey := e.held(&got)
		query, body, headers := "?sku=first&sku=first", `{"a":{"b":7},"a":{"b":7}}`, []string{"X-User", "ann", "X-User", "ann", "Cookie", "id=1; session=s7"}
		if tc.body != "" {
			query, body, headers = "", tc.body, append(headers, "Content-Type", tc.kind)
		}
		route := e.route(func(x *Exchange) error {
			e.wantBody(x.R, body)
			return noteKey(x)
		})
		route.Key = keyfunc.MustParse(tc.template)
		route.Values = map[string]any{"tenant": "blue"}
		e.serve(route)
		r := e.request(http.MethodPost, payPath+query, strings.NewReader(body), headers...)
		r.Host = "shop.test"
		e.wantStatus(e.do(r), http.StatusOK)
		if got != prefix+tc.want {
			e.Errorf("%s: key = %q, want %q", tc.template, got, prefix+tc.want)
		}
	}
	e.routeIsKnown()
}

func (e *env) routeIsKnown() {
	e.Helper()
	var got string
	route := e.route(e.held(&got))
	route.Key = keyfunc.Route()
	e.serve(route)
	e.wantStatus(e.pay(), http.StatusOK)
	if !strings.HasPrefix(got, prefix+"POST /orders/") || !strings.HasSuffix(got, "/pay") || strings.Contains(got, id) {
		e.Errorf("key of the route = %q", got)
	}
}

func nativeKeyWorks(e *env) {
	var got string
	route := e.route(e.held(&got))
	native := e.fw.Key(func(r *http.Request) (string, error) { return "user:" + r.Header.Get("X-User"), nil })
	route.Key = keyfunc.Join(keyfunc.Const("order"), native)
	e.serve(route)
	e.wantStatus(e.do(e.request(http.MethodPost, payPath, nil, "X-User", "ann")), http.StatusOK)
	if want := prefix + "order:user%3Aann"; got != want {
		e.Errorf("key = %q, want %q", got, want)
	}
}

func nativeKeyIsEscaped(e *env) {
	var got string
	route := e.route(e.held(&got))
	route.Key = e.fw.Key(func(r *http.Request) (string, error) { return r.URL.Query().Get("k"), nil })
	e.serve(route)
	for query, want := range map[string]string{
		"order:7":                 "order:7",
		"%7Ba%7D%25%0A":           "%7Ba%7D%25%0A",
		"a:%7Bparam.id%7D":        "a:%7Bparam.id%7D", // no template, whatever a client writes
		strings.Repeat("a", 1000): strings.Repeat("a", 140) + "#41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3",
	} {
		e.wantStatus(e.do(e.request(http.MethodPost, payPath+"?k="+query, nil)), http.StatusOK)
		if got != prefix+want {
			e.Errorf("key = %q, want %q", got, prefix+want)
		}
	}
	e.wantProblem(e.pay(), http.StatusBadRequest, "LOCK_KEY_INVALID") // an empty one
}

func nativeKeyOfAnotherDoorIsRefused(e *env) {
	native := e.fw.Key(func(*http.Request) (string, error) {
		e.Error("the native function is called with what another door has made")
		return "", nil
	})
	var reason error
	route := e.route(fine)
	route.Key = func(r keyfunc.Request) (string, error) {
		key, err := native(struct{ keyfunc.Request }{r})
		reason = err
		return key, err
	}
	e.serve(route)
	e.wantProblem(e.pay(), http.StatusInternalServerError, "LOCK_MISUSE")
	if reason == nil || !strings.Contains(reason.Error(), e.fw.Door) {
		e.Errorf("error = %v, want one that names %s", reason, e.fw.Door)
	}
	e.WantUnasked()
}

// severalKeysAreTakenTogether: keyfunc.All and keyfunc.Each, of which the native
// key function is a part.
func severalKeysAreTakenTogether(e *env) {
	e.takenTogether(keyfunc.All(keyfunc.MustParse("account:{param.id}"), keyfunc.MustParse("account:{query.to}")))
	native := e.fw.Key(func(r *http.Request) (string, error) { return "account", nil })
	e.takenTogether(keyfunc.Each("body.ids", keyfunc.Join(native, keyfunc.Body("ids"))))
}

func (e *env) takenTogether(key keyfunc.Func) {
	e.Helper()
	ran := int(e.Ran.Load())
	keys := []string{prefix + "account:" + id, prefix + "account:b"}
	route := e.route(func(*Exchange) error {
		for _, key := range keys {
			if e.Token(key) == "" {
				e.Errorf("%s is not locked while the handler runs", key)
			}
		}
		return nil
	})
	route.Key = key
	e.serve(route)
	pay := func() answer {
		return e.do(e.request(http.MethodPost, payPath+"?to=b", strings.NewReader(`{"ids":["`+id+`","b","`+id+`"]}`)))
	}
	e.wantStatus(pay(), http.StatusOK)
	for _, key := range keys {
		lease := e.Take(key)
		e.wantProblem(pay(), http.StatusConflict, "LOCK_BUSY")
		e.Release(lease)
	}
	e.WantFree()
	e.wantStatus(pay(), http.StatusOK)
	e.WantRuns(ran + 2)
}

func skippedRequestTakesNoLock(e *env) {
	const body = `{"id":7}`
	handle := func(x *Exchange) error {
		if _, found := lockmw.FromContext(x.R.Context()); found {
			e.Error("a skipped request has a lease")
		}
		e.wantBody(x.R, body)
		return nil
	}
	byKey, byOption := e.route(handle), e.route(handle)
	byKey.Path = "/bykey/{id}"
	byKey.Key = keyfunc.Join(keyfunc.Body("id"), func(keyfunc.Request) (string, error) {
		return "", fmt.Errorf("a guest: %w", keyfunc.Skip)
	})
	byOption.Options.Skipper = func(r *http.Request) bool { return r.Header.Get("X-Guest") != "" }
	e.serve(byKey, byOption)
	e.wantStatus(e.do(e.request(http.MethodPost, "/bykey/"+id, strings.NewReader(body))), http.StatusOK)
	e.wantStatus(e.do(e.request(http.MethodPost, payPath, strings.NewReader(body), "X-Guest", "1")), http.StatusOK)
	e.WantUnasked()
	e.hold()
	e.wantProblem(e.do(e.request(http.MethodPost, payPath, strings.NewReader(body))), http.StatusConflict, "LOCK_BUSY")
	e.WantRuns(2)
}
