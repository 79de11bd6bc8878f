package keyfunc_test

import (
	"context"
	"errors"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lockmw/kit/keyfunc"
)

// call is a Request made of maps.
type call struct {
	method, route                string
	param, query, header, fields map[string]string
	form, cookie                 map[string]string
	values                       map[string]any
	arrays                       map[string][]map[string]string // elements by path; "" is the element itself
	bodyErr, formErr, cookieErr  error
}

var (
	_ keyfunc.FormRequest   = call{}
	_ keyfunc.CookieRequest = call{}
	_ keyfunc.ArrayRequest  = call{}
)

func (c call) Context() context.Context { return context.Background() }
func (c call) Method() string           { return c.method }
func (c call) Route() string            { return c.route }

func (c call) Param(name string) (string, bool)  { s, ok := c.param[name]; return s, ok }
func (c call) Query(name string) (string, bool)  { s, ok := c.query[name]; return s, ok }
func (c call) Header(name string) (string, bool) { s, ok := c.header[name]; return s, ok }
func (c call) Value(name string) (any, bool)     { v, ok := c.values[name]; return v, ok }

func (c call) Body(path string) (string, bool, error) {
	s, ok := c.fields[path]
	return s, ok, c.bodyErr
}

func (c call) Form(name string) (string, bool, error) {
	s, ok := c.form[name]
	return s, ok, c.formErr
}

func (c call) Cookie(name string) (string, bool, error) {
	s, ok := c.cookie[name]
	return s, ok, c.cookieErr
}

func (c call) Elements(path string, max int) ([]keyfunc.Element, bool, error) {
	array, ok := c.arrays[path]
	var list []keyfunc.Element
	for _, fields := range array[:min(len(array), max+1)] {
		list = append(list, func(path string) (string, bool, error) {
			s, ok := fields[path]
			return s, ok, nil
		})
	}
	return list, ok, c.bodyErr
}

// array makes a call whose body has an array of these texts.
func array(path string, elements ...string) call {
	list := make([]map[string]string, len(elements))
	for i, s := range elements {
		list[i] = texts("", s)
	}
	return call{arrays: map[string][]map[string]string{path: list}}
}

// texts is a map for call's fields: texts("id", "42").
func texts(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// tuple is a Request in which every source has the values a, b, c and so on.
// Its route is made for as many parameters.
type tuple []string

var _ keyfunc.Request = tuple{}

func (t tuple) at(name string) (string, bool) {
	i := int(name[0] - 'a')
	if len(name) != 1 || i >= len(t) {
		return "", false
	}
	return t[i], true
}

func (t tuple) Context() context.Context               { return context.Background() }
func (t tuple) Method() string                         { return "POST" }
func (t tuple) Route() string                          { return "/:a/:b/:c/:d"[:3*len(t)] }
func (t tuple) Param(name string) (string, bool)       { return t.at(name) }
func (t tuple) Query(name string) (string, bool)       { return t.at(name) }
func (t tuple) Header(name string) (string, bool)      { return t.at(name) }
func (t tuple) Body(path string) (string, bool, error) { s, ok := t.at(path); return s, ok, nil }
func (t tuple) Value(name string) (any, bool)          { s, ok := t.at(name); return s, ok }

func (t tuple) Form(name string) (string, bool, error)   { s, ok := t.at(name); return s, ok, nil }
func (t tuple) Cookie(name string) (string, bool, error) { s, ok := t.at(name); return s, ok, nil }

// split is a tuple whose last value is the query parameter z, and the others
// are the parameters of the route.
type split struct{ tuple }

func (s split) Route() string { return s.tuple[1:].Route() }

func (s split) Query(name string) (string, bool) {
	return s.tuple[len(s.tuple)-1], name == "z"
}

// everywhere is a Request that has one value under every name.
type everywhere string

var _ keyfunc.Request = everywhere("")

func (e everywhere) Context() context.Context          { return context.Background() }
func (e everywhere) Method() string                    { return string(e) }
func (e everywhere) Route() string                     { return "/:a/" + string(e) }
func (e everywhere) Param(string) (string, bool)       { return string(e), true }
func (e everywhere) Query(string) (string, bool)       { return string(e), true }
func (e everywhere) Header(string) (string, bool)      { return string(e), true }
func (e everywhere) Body(string) (string, bool, error) { return string(e), true, nil }
func (e everywhere) Value(string) (any, bool)          { return string(e), true }

func (e everywhere) Form(string) (string, bool, error)   { return string(e), true, nil }
func (e everywhere) Cookie(string) (string, bool, error) { return string(e), true, nil }

// native returns a Func of the user's own, whose key is s as it is.
func native(s string) keyfunc.Func {
	return func(keyfunc.Request) (string, error) { return s, nil }
}

func failing(err error) keyfunc.Func {
	return func(keyfunc.Request) (string, error) { return "", err }
}

func mustKey(tb testing.TB, f keyfunc.Func, r keyfunc.Request) string {
	tb.Helper()
	key, err := f(r)
	if err != nil {
		tb.Fatalf("key: unexpected error: %v", err)
	}
	checkValid(tb, key)
	return key
}

func wantKey(tb testing.TB, f keyfunc.Func, r keyfunc.Request, want string) {
	tb.Helper()
	if got := mustKey(tb, f, r); got != want {
		tb.Errorf("key = %q, want %q", got, want)
	}
}

func wantErr(tb testing.TB, f keyfunc.Func, r keyfunc.Request, want error) {
	tb.Helper()
	key, err := f(r)
	if !errors.Is(err, want) {
		tb.Errorf("error = %v, want %v", err, want)
	}
	if key != "" {
		tb.Errorf("key = %q beside an error, want none", key)
	}
}

// checkValid fails unless key is what the package promises of every key.
func checkValid(tb testing.TB, key string) {
	tb.Helper()
	switch {
	case key == "":
		tb.Fatal("key is empty")
	case len(key) > 210:
		tb.Fatalf("key has %d bytes, want at most 210: %q", len(key), key)
	case !utf8.ValidString(key):
		tb.Fatalf("key is not UTF-8: %q", key)
	}
	for _, r := range key {
		if r == '{' || r == '}' || unicode.IsControl(r) {
			tb.Fatalf("key holds %q: %q", r, key)
		}
	}
}

// panicOf returns what f panics with.
func panicOf(tb testing.TB, f func()) (value any) {
	tb.Helper()
	defer func() {
		tb.Helper()
		if value = recover(); value == nil {
			tb.Fatal("no panic")
		}
	}()
	f()
	return nil
}
