package keyfunc_test

import (
	"errors"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// hostile are values that have broken key schemes.
var hostile = []string{
	"", "42", ":", "%", "%3A", "{tag}", "a:b", "a%3Ab", "\x00", "\r\n", "\x7f", "\u0085", "\xff", "\xc3", "é", "\ufffd", "🙂",
	"#", "{0f8fad5b-d9cb-469f-a165-70867728950e}", "+007", "-0", "GRÖSSE\xff",
	strings.Repeat("x", 200), strings.Repeat("%", 100), strings.Repeat("é", 120), strings.Repeat("x", 8<<10), strings.Repeat("x", 8<<10+1),
}

// checkResult fails unless there is either a valid key or an error for which
// the request is to blame.
func checkResult(tb testing.TB, key string, err error) {
	tb.Helper()
	switch {
	case err == nil:
		checkValid(tb, key)
	case key != "":
		tb.Fatalf("key %q beside the error %v", key, err)
	case !errors.Is(err, keyfunc.ErrMissing) && !errors.Is(err, keyfunc.ErrInvalidValue):
		tb.Fatalf("error = %v, want ErrMissing or ErrInvalidValue", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, template := range []string{
		"order:{param.a}", "{query.a?|lower|hash}-{header.b}", "{{{body.a.b|int}}}", "{params}{method} {route}",
		"{value.a|uuid}{value.b}", "{query.a?=x|lower}-{query.b?=007|int}", "{query.a?=", "{query.a?=}", "%{param.a}%", "{", "}", "{}", "{param.a|}", "{parm.a}", "\xff{param.\xff}é", "{param.a}\xff",
	} {
		for _, value := range []string{"42", ":%{}", "\xff"} {
			f.Add(template, value)
		}
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		key, err := keyfunc.Parse(template)
		if err != nil {
			var syntax *keyfunc.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("error = %v, want a *SyntaxError", err)
			}
			if runes := len([]rune(template)); syntax.Column < 1 || syntax.Column > runes+1 {
				t.Fatalf("column %d of a template with %d runes", syntax.Column, runes)
			}
			if again, _ := keyfunc.Parse(template); again != nil || syntax.Error() == "" {
				t.Fatal("the second answer is another one")
			}
			return
		}
		got, err := key(everywhere(value))
		checkResult(t, got, err)
		if again, _ := key(everywhere(value)); again != got {
			t.Fatalf("key = %q, then %q", got, again)
		}
	})
}

func FuzzInjective(f *testing.F) {
	for i, a := range hostile {
		f.Add(a, "1", "2", "1", a, "2")
		f.Add(a, hostile[(i+1)%len(hostile)], "", "", a, hostile[(i+2)%len(hostile)])
	}
	all := schemes()
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g string) {
		// Chance hardly finds two tuples that could collide, so what somebody
		// would try who wants a collision is tried with every first value.
		decoded, err := url.PathUnescape(a)
		if err != nil {
			decoded = a + "%"
		}
		escaped := strings.NewReplacer("%", "%25", ":", "%3A", "-", "%2D", "{", "%7B").Replace(a)
		for _, other := range []tuple{{d, e, g}, {decoded, b, c}, {escaped, b, c}, {a + ":" + b, c, d}, {a, b + "%", c}} {
			for size := 1; size <= 3; size++ {
				wantApart(t, all, tuple{a, b, c}[:size], other[:size])
			}
		}
	})
}

// wantApart fails the test if a scheme gives one key to two tuples.
func wantApart(t *testing.T, schemes []scheme, one, other tuple) {
	t.Helper()
	if slices.Equal(one, other) {
		return
	}
	for _, s := range schemes {
		if s.funcs[len(one)-1] == nil {
			continue
		}
		key1, err1 := s.key(one)
		key2, err2 := s.key(other)
		checkResult(t, key1, err1)
		checkResult(t, key2, err2)
		if err1 == nil && err2 == nil && key1 == key2 {
			t.Fatalf("%s: %q and %q both give %q", s.name, one, other, key1)
		}
	}
}

func FuzzFilters(f *testing.F) {
	for _, value := range hostile {
		f.Add(value)
	}
	filters := make(map[string]keyfunc.Func)
	for _, name := range keyfunc.FilterNames() {
		filters[name] = keyfunc.MustParse("{param.a|" + name + "}")
	}
	f.Fuzz(func(t *testing.T, value string) {
		for name, filter := range filters {
			key, err := filter(tuple{value})
			checkResult(t, key, err)
			if err != nil || examples[name].digest || len(value) > 50 {
				continue // a longer key may be a digest, which says nothing
			}
			if again, err := filter(tuple{key}); !strings.Contains(key, "%") && (err != nil || again != key) {
				t.Errorf("%s: %q gives %q, and that gives %q, %v", name, value, key, again, err)
			}
		}
		if key, err := filters["int"](tuple{value}); err == nil && len(value) <= 50 {
			n, ok := new(big.Int).SetString(value, 10)
			if !ok || n.String() != key {
				t.Errorf("int: %q gives %q, want %v", value, key, n)
			}
		}
		if key, err := filters["uuid"](tuple{value}); err == nil {
			digits := func(s string) string {
				s = strings.ToLower(strings.Trim(s, "{}"))
				return strings.ReplaceAll(strings.TrimPrefix(s, "urn:uuid:"), "-", "")
			}
			if len(key) != 36 || digits(key) != digits(value) {
				t.Errorf("uuid: %q gives %q", value, key)
			}
		}
	})
}

func FuzzValidKey(f *testing.F) {
	for _, value := range hostile {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		funcs := []keyfunc.Func{
			keyfunc.Param("a"), keyfunc.Query("a"), keyfunc.Header("a"), keyfunc.Body("a"), keyfunc.Form("a"), keyfunc.Cookie("a"), keyfunc.Value("a"),
			keyfunc.Params(), keyfunc.Params("a", "a"), keyfunc.Join(native(value)), keyfunc.Join(native(value), keyfunc.Param("a")),
			keyfunc.Hash(native(value)), keyfunc.Secret([]byte("k"), native(value)),
			keyfunc.MustParse("é{param.a}é{query.a?}%"),
		}
		for _, keyOf := range funcs {
			key, err := keyOf(tuple{value})
			checkResult(t, key, err)
		}
		route, err := keyfunc.Route()(call{method: "POST", route: value})
		checkResult(t, route, err)
		route, err = keyfunc.Route()(call{method: value, route: "/"})
		checkResult(t, route, err)
		params, err := keyfunc.Params()(call{route: value})
		checkResult(t, params, err)
		if value != "" {
			checkValid(t, mustKey(t, keyfunc.Const(value), call{}))
		}
	})
}
