package keyfunc_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/keyfunc"
)

// scheme is one way to make a key of several values.
type scheme struct {
	name string
	// funcs holds the Func for one value, for two and for three. A nil one
	// is left out.
	funcs [3]keyfunc.Func
	// symbols are what the values are made of: characters that the scheme
	// treats in a special way, or that its escapes are made of.
	symbols [6]string
	// empty says that values may be empty.
	empty bool
	// mixed says that tuples of different length must not collide either.
	mixed bool
	// split says that the last value is in the query; see split.
	split bool
}

func (s scheme) key(values tuple) (string, error) {
	f := s.funcs[len(values)-1]
	if s.split {
		return f(split{values})
	}
	return f(values)
}

// schemes returns every way to combine values. A template is written for each
// number of placeholders: its separator stands between them and at the end.
func schemes() []scheme {
	of := func(f keyfunc.Func) [3]keyfunc.Func { return [3]keyfunc.Func{f, f, f} }
	own := func(i int) keyfunc.Func {
		return keyfunc.Optional(func(r keyfunc.Request) (string, error) { return r.(tuple)[i], nil })
	}
	ownParts := []keyfunc.Func{own(0), own(1), own(2)}
	params := []keyfunc.Func{keyfunc.Param("a"), keyfunc.Param("b"), keyfunc.Param("c")}
	join := func(parts []keyfunc.Func) (funcs [3]keyfunc.Func) {
		for i := range funcs {
			funcs[i] = keyfunc.Join(parts[:i+1]...)
		}
		return funcs
	}
	colon := [6]string{":", "%", "{", "3", "A", "2"}
	list := []scheme{
		{name: "Join of own Funcs", funcs: join(ownParts), symbols: colon, empty: true, mixed: true},
		{name: "Join of Form and Cookie", funcs: join([]keyfunc.Func{keyfunc.Form("a"), keyfunc.Cookie("b"), keyfunc.Optional(keyfunc.Form("c"))}), symbols: colon, mixed: true},
		{name: "Join of Params", funcs: join(params), symbols: colon, mixed: true},
		{name: "Params", funcs: of(keyfunc.Params()), symbols: colon, mixed: true},
		{name: "Params by name", symbols: colon, funcs: [3]keyfunc.Func{
			keyfunc.Params("a"), keyfunc.Params("b", "a"), keyfunc.Params("c", "a", "b"),
		}},
		{name: "{params}:{params}", funcs: of(keyfunc.MustParse("{params}:{params}")), symbols: colon, mixed: true},
	}
	// How many parameters there are is not in the template, but in the key.
	for _, separator := range []string{"", ":", "-", "%", "A:"} {
		f := keyfunc.MustParse("{params}" + separator + "{query.z?}")
		list = append(list, scheme{
			name:    fmt.Sprintf("template {params}%s{query.z?}", separator),
			funcs:   [3]keyfunc.Func{nil, f, f},
			symbols: [6]string{":", "%", "-", "A", "2", "3"},
			mixed:   true, split: true,
		})
	}
	for _, t := range []struct {
		separator string
		symbols   [6]string
	}{
		{"", colon},
		{":", colon},
		{"-", [6]string{"-", "%", ":", "2", "D", "3"}},
		{"A", [6]string{"A", "%", ":", "3", "2", "5"}},
		{"3", [6]string{"3", "%", ":", "A", "2", "5"}},
		{"2", [6]string{"2", "%", "5", "3", ":", "B"}},
		{"%", [6]string{"%", "2", "5", ":", "3", "A"}},
		{"%3A", [6]string{"%", "3", "A", ":", "2", "5"}},
		{"{{", [6]string{"{", "%", "7", "B", ":", "3"}},
		{"}}", [6]string{"}", "%", "7", "D", ":", "3"}},
		{"\n", [6]string{"\n", "%", "0", "A", ":", "3"}},
		{"\xc3", [6]string{"\xc3", "%", "C", "3", "\xa9", ":"}},
		{"é", [6]string{"é", "\xc3", "\xa9", "%", "C", ":"}},
		{"\ufffd", [6]string{"\ufffd", "\xef", "\xff", "%", "F", ":"}},
		{"::", colon},
		{"A:", [6]string{"A", ":", "%", "3", "4", "1"}},
		{"#", [6]string{"#", "%", "2", "3", ":", "A"}},
	} {
		s := scheme{name: fmt.Sprintf("template %q", t.separator), symbols: t.symbols, empty: true}
		template := ""
		for i := range s.funcs {
			template += fmt.Sprintf("{query.%c?}", 'a'+i)
			s.funcs[i] = keyfunc.MustParse(template)
			if i < len(s.funcs)-1 {
				template += t.separator
			}
		}
		list = append(list, s)
	}
	return list
}

// allStrings returns all strings of up to n symbols, the empty one first.
func allStrings(symbols [6]string, n int) []string {
	all, last := []string{""}, []string{""}
	for range n {
		var longer []string
		for _, s := range last {
			for _, symbol := range symbols {
				longer = append(longer, s+symbol)
			}
		}
		all, last = append(all, longer...), longer
	}
	slices.Sort(all) // a symbol may consist of two others
	return slices.Compact(all)
}

// Every tuple of one and two values of up to three symbols, and of three
// values of up to two: 147,000 tuples a scheme. Three values of three symbols
// are 17 million, too many to remember; the next test decodes those.
func TestDifferentValuesNeverGiveOneKey(t *testing.T) {
	var checked atomic.Int64
	t.Cleanup(func() { t.Logf("%d tuples", checked.Load()) })
	for _, s := range schemes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			seen := make(map[string]tuple)
			check := func(values ...string) {
				if s.funcs[len(values)-1] == nil {
					return
				}
				key, err := s.key(values)
				if err != nil {
					// Only what may be empty may fail.
					if allEmpty := strings.Join(values, "") == ""; !allEmpty && (s.empty || !slices.Contains(values, "")) {
						t.Fatalf("%q: %v", values, err)
					}
					return
				}
				if other, ok := seen[key]; ok {
					t.Fatalf("%q and %q both give %q", other, values, key)
				}
				seen[key] = values
			}
			next := func() {
				checked.Add(int64(len(seen)))
				if !s.mixed {
					clear(seen)
				}
			}
			short, long := allStrings(s.symbols, 2), allStrings(s.symbols, 3)
			for _, a := range long {
				check(a)
			}
			next()
			for _, a := range long {
				for _, b := range long {
					check(a, b)
				}
			}
			next()
			for _, a := range short {
				for _, b := range short {
					for _, c := range short {
						check(a, b, c)
					}
				}
			}
			next()
		})
	}
}

// If every key can be decoded to the values it was made of, no two tuples can
// share one, and nothing need be remembered. The decoder is that of net/url.
func TestJoinedKeyCanBeDecoded(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	f := schemes()[0].funcs[2]
	values := allStrings([6]string{":", "%", "{", "3", "A", "\xff"}, decodeLength)
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for i := worker; i < len(values); i += 2 {
				for _, b := range values {
					for _, c := range values {
						if err := decodes(f, tuple{values[i], b, c}); err != nil {
							t.Error(err)
							return
						}
					}
				}
			}
		})
	}
	wg.Wait()
	n := len(values)
	t.Logf("%d tuples", n*n*n)
}

func decodes(f keyfunc.Func, want tuple) error {
	key, err := f(want)
	if err != nil {
		if want[0]+want[1]+want[2] == "" {
			return nil
		}
		return fmt.Errorf("%q: %w", want, err)
	}
	for i, rest := 0, key; ; i++ {
		part, after, more := strings.Cut(rest, ":")
		got, err := url.PathUnescape(part)
		if err != nil || i >= len(want) || got != want[i] || !more && i != len(want)-1 {
			return fmt.Errorf("%q gives %q: part %d is decoded to %q (%v)", want, key, i, got, err) //nolint:errorlint // err may be nil
		}
		if !more {
			return nil
		}
		rest = after
	}
}

// Route is not made of values, but two routes must not share a lock either.
func TestDifferentRoutesNeverGiveOneKey(t *testing.T) {
	for name, tc := range map[string]struct {
		f       keyfunc.Func
		symbols [6]string
	}{
		"Route":         {keyfunc.Route(), [6]string{" ", "%", "2", "0", "/", "{"}},
		"Join of Route": {keyfunc.Join(keyfunc.Route(), keyfunc.Route()), [6]string{":", "%", "3", "A", " ", "{"}},
	} {
		t.Run(name, func(t *testing.T) { routesApart(t, tc.f, tc.symbols) })
	}
}

func routesApart(t *testing.T, f keyfunc.Func, symbols [6]string) {
	t.Helper()
	seen := make(map[string]call)
	words := allStrings(symbols, 3)[1:]
	for _, method := range words {
		for _, route := range words {
			if strings.HasPrefix(route, method+" ") {
				continue // a pattern that names its method; the same as without
			}
			r := call{method: method, route: route}
			key, err := f(r)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[key]; ok {
				t.Fatalf("%q and %q both give %q", []string{other.method, other.route}, []string{method, route}, key)
			}
			seen[key] = r
		}
	}
}
