package doortest

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// mistakeOfTheProgramIsTold: what a developer wrote for two routes, of which no
// request can have the key. The client is told that it is not its fault, the log once
// for each route what is wrong, and observers each time. In what the log says, ROUTE
// is how the framework writes "/orders/{id}/pay".
func mistakeOfTheProgramIsTold(e *env) {
	const missing = "keyfunc: required value is missing or empty: "
	own := func(keyfunc.Request) (string, error) {
		return "", fmt.Errorf("shop: %w: no such shard", keyfunc.ErrMisuse)
	}
	for _, tc := range []struct {
		wrote string
		key   keyfunc.Func
		says  string
	}{
		{"a wrong name", keyfunc.MustParse("order:{param.order}"), missing + `param "order": route ROUTE has no such parameter; it has "id"`},
		{"a name in another case", keyfunc.Param("ID"), missing + `param "ID": route ROUTE has no such parameter; it has "id"`},
		{"a name too many", keyfunc.Params("id", "shop"), missing + `param "shop": route ROUTE has no such parameter; it has "id"`},
		{"a wrong name behind others", keyfunc.Join(keyfunc.Const("a"), keyfunc.Body("id"), keyfunc.Param("order")), missing + `param "order": route ROUTE has no such parameter; it has "id"`},
		{"a wrong name among several keys", keyfunc.All(keyfunc.Param("id"), keyfunc.Param("to")), missing + `param "to": route ROUTE has no such parameter; it has "id"`},
		{"a wrong name for each element", keyfunc.Each("body.ids", keyfunc.MustParse("{body.ids}:{param.order}")), missing + `param "order": route ROUTE has no such parameter; it has "id"`},
		{"nothing but an optional wrong name", keyfunc.Optional(keyfunc.Param("order")), missing + `param "order": route ROUTE has no such parameter; it has "id" (Optional allows that in Join and All)`},
		{"a function that says so", own, "shop: keyfunc: mistake of the program: no such shard"},
	} {
		e.misused(tc.wrote, tc.key, "/orders/{id}/pay", "/orders/{id}/cancel", tc.says)
	}
	for _, tc := range []struct {
		wrote string
		key   keyfunc.Func
		says  string
	}{
		{"a parameter for a route that has none", keyfunc.MustParse("order:{param.id}"), missing + `param "id": route ROUTE has no such parameter; it has none`},
		{"all parameters of a route that has none", keyfunc.MustParse("order:{params}"), missing + "params: route ROUTE has no parameters"},
	} {
		e.misused(tc.wrote, tc.key, "/pay", "/cancel", tc.says)
	}
	e.WantUnasked()
	e.WantRuns(0)
}

// misused fails the test unless requests to both routes are refused as a mistake of
// the program, and one line for each says what is wrong.
func (e *env) misused(wrote string, key keyfunc.Func, path, other, says string) {
	e.Helper()
	var log testenv.Log
	locks := e.NewLocker(log.Option())
	seen := e.Seen(lockmw.EventRefused)
	var names []string // of the routes, as the framework writes them
	named := func(r keyfunc.Request) (string, error) {
		if name := r.Route(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		return key(r)
	}
	var told error
	var routes []Route
	for _, path := range []string{path, other} {
		route := e.route(fine)
		route.Locks, route.Path, route.Key = locks, path, named
		route.Options.ErrorHandler = func(_ http.ResponseWriter, _ *http.Request, err error) { told = err }
		routes = append(routes, route)
	}
	e.serve(routes...)
	const times = 3
	for range times {
		for _, path := range []string{path, other} {
			told = nil
			path = strings.ReplaceAll(path, "{id}", id)
			a := e.do(e.request(http.MethodPost, path, strings.NewReader(`{"id":7,"ids":[7]}`)))
			e.wantProblem(a, http.StatusInternalServerError, lockmw.CodeMisuse)
			if refusal, ok := lockmw.RefusalOf(told); !ok || refusal.Code != lockmw.CodeMisuse || errors.Is(told, lockmw.ErrInvalidKey) {
				e.Errorf("%s: the error handler is told %v, which is %+v", wrote, told, refusal)
			}
		}
	}
	e.CloseNow(locks)
	if n := e.Seen(lockmw.EventRefused) - seen; n != 2*times {
		e.Errorf("%s: observers were told of %d refusals, want %d", wrote, n, 2*times)
	}
	var want []string
	for _, name := range names {
		want = append(want, fmt.Sprintf("ERROR LOCK_MISUSE lockmw: acquire %q: ", prefix)+strings.ReplaceAll(says, "ROUTE", fmt.Sprintf("%q", name)))
		if !strings.Contains(says, "ROUTE") {
			break // it is the same mistake
		}
	}
	if got := log.Lines(); !slices.Equal(got, want) {
		e.Errorf("%s: logged\n%s\nwant\n%s", wrote, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// numberInAnotherSpellingIsTold: a key of 042 is another one than that of 42, and a handler
// that reads a number takes both for one. One line for each value in a key says so, and
// does not say which value it was.
func numberInAnotherSpellingIsTold(e *env) {
	var log bytes.Buffer
	locks := e.NewLocker(lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	route, filtered := e.route(fine), e.route(fine)
	route.Locks, route.Key = locks, keyfunc.MustParse("{param.id}:{query.page?}")
	filtered.Locks, filtered.Path, filtered.Key = locks, "/filtered/{id}", keyfunc.MustParse("{param.id|int}")
	e.serve(route, filtered)
	for _, path := range []string{
		"/orders/42/pay", "/orders/-7/pay?page=0", "/orders/4x/pay?page=+", "/orders/0x2a/pay?page=10", "/filtered/042",
		"/orders/042/pay", "/orders/+42/pay", "/orders/-0/pay?page=0000777", "/orders/00/pay?page=1",
	} {
		e.wantStatus(e.do(e.request(http.MethodPost, path, nil)), http.StatusOK)
	}
	e.CloseNow(locks)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "{param.id|int}") || !strings.Contains(lines[1], "{query.page|int}") {
		e.Errorf("logged\n%s\nwant a line for {param.id|int} and one for {query.page|int}", log.String())
	}
	for _, line := range lines {
		if !strings.Contains(line, "level=WARN") || strings.Contains(line, "0000777") {
			e.Errorf("logged %s, want a warning without the value", line)
		}
	}
}

// whatIsOptionalMayBeMissing: a key function may serve routes that have a parameter
// and others that do not.
func whatIsOptionalMayBeMissing(e *env) {
	var got string
	for _, key := range []keyfunc.Func{
		keyfunc.MustParse("{param.id}:{param.shelf?}"),
		keyfunc.Join(keyfunc.Param("id"), keyfunc.Optional(keyfunc.Param("shelf"))),
	} {
		route := e.route(e.held(&got))
		route.Key = key
		e.serve(route)
		e.wantStatus(e.pay(), http.StatusOK)
		if want := prefix + id + ":"; got != want {
			e.Errorf("key = %q, want %q", got, want)
		}
	}
}

// valueThatIsMissingIsTold: a request without a tenant is refused, and does not share
// the lock of others without one.
func valueThatIsMissingIsTold(e *env) {
	var log testenv.Log
	locks := e.NewLocker(log.Option())
	route := e.route(fine)
	route.Locks, route.Key = locks, keyfunc.MustParse("{value.tenant}:{param.id}")
	for _, values := range []map[string]any{nil, {"user": "ann"}, {"tenant": ""}} {
		route.Values = values
		e.serve(route)
		e.wantProblem(e.pay(), http.StatusBadRequest, lockmw.CodeKeyInvalid)
	}
	e.CloseNow(locks)
	want := fmt.Sprintf("WARN LOCK_KEY_INVALID lockmw: acquire %q: invalid key: keyfunc: required value is missing or empty: value \"tenant\"", prefix)
	got := log.Lines()
	if len(got) < 1 || len(got) > 3 || got[0] != want { // one, unless that took seconds
		e.Errorf("logged %q, want %q", got, want)
	}
	e.WantRuns(0)
	e.WantUnasked()
}
