package keyfunc_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

func TestConstIsTheSameForEveryRequest(t *testing.T) {
	wantKey(t, keyfunc.Const("nightly job"), call{}, "nightly job")
	wantKey(t, keyfunc.Const("50%{a}\n"), call{}, "50%25%7Ba%7D%0A")
}

func TestEmptyConstPanics(t *testing.T) {
	got := panicOf(t, func() { keyfunc.Const("") })
	want := "keyfunc: Const of an empty string: an empty key would lock all requests against each other"
	if got != want {
		t.Errorf("panic = %q, want %q", got, want)
	}
}

// Nobody means all requests to take one lock whose name is "{param.id}".
func TestConstOfATemplatePanics(t *testing.T) {
	for _, text := range []string{"{param.id}", "order:{param.id}", "{route}", "{value.tenant}:{body.id|int}", "a{{b}}{params}"} {
		got := panicOf(t, func() { keyfunc.Const(text) })
		want := fmt.Sprintf("keyfunc: Const of %q: it fills in no placeholder, so all requests would take one lock; use keyfunc.MustParse", text)
		if got != want {
			t.Errorf("panic = %v\nwant    %s", got, want)
		}
	}
	for _, text := range []string{"{id}", "{}", "order:{{param.id}}", "100%{a", "${param.id}", "order:%s"} {
		mustKey(t, keyfunc.Const(text), call{})
	}
}

func TestJoinEscapesItsParts(t *testing.T) {
	for _, tc := range []struct {
		parts []string
		want  string
	}{
		{[]string{"order", "42"}, "order:42"},
		{[]string{"a:b", "c"}, "a%3Ab:c"},
		{[]string{"a", "b:c"}, "a:b%3Ac"},
		{[]string{"a%3Ab", "c"}, "a%253Ab:c"},
		{[]string{"{a}\n", "\xff"}, "%7Ba%7D%0A:%FF"},
	} {
		parts := make([]keyfunc.Func, len(tc.parts))
		for i, s := range tc.parts {
			parts[i] = native(s)
		}
		wantKey(t, keyfunc.Join(parts...), call{}, tc.want)
	}
}

func TestJoinAgreesWithTheTemplateThatReadsAlike(t *testing.T) {
	join := keyfunc.Join(keyfunc.Const("order"), keyfunc.Param("id"))
	template := keyfunc.MustParse("order:{param.id}")
	for _, id := range []string{"42", "a:b", "größe", "a/b c#d"} {
		r := call{param: texts("id", id)}
		wantKey(t, join, r, mustKey(t, template, r))
	}
	lower := keyfunc.Join(keyfunc.Const("order"), keyfunc.MustParse("{param.id|lower}"))
	wantKey(t, lower, call{param: texts("id", "A:B")}, "order:a%3Ab")
}

// A tenant that is not there would share its locks with all that are not.
func TestJoinEscapesARouteOnce(t *testing.T) {
	r := call{method: "POST", route: "POST /orders/{id}", param: texts("id", "4:2")}
	wantKey(t, keyfunc.Join(keyfunc.Route(), keyfunc.Param("id")), r, "POST /orders/%7Bid%7D:4%3A2")
	wantKey(t, keyfunc.Join(keyfunc.Const("a"), keyfunc.Route()), r, "a:POST /orders/%7Bid%7D")
	r.route = "/orders/:id/50%"
	wantKey(t, keyfunc.Join(keyfunc.Route(), keyfunc.Param("id")), r, "POST /orders/%3Aid/50%25:4%3A2")
	own := native("POST /orders/%7Bid%7D") // is no Route, whatever it looks like
	wantKey(t, keyfunc.Join(own, keyfunc.Param("id")), r, "POST /orders/%257Bid%257D:4%3A2")
}

func TestJoinRefusesAnEmptyPart(t *testing.T) {
	tenant := func(r keyfunc.Request) (string, error) {
		name, _ := r.Header("X-Tenant")
		return name, nil
	}
	key := keyfunc.Join(keyfunc.Const("acct"), tenant, keyfunc.Param("id"))
	wantErr(t, key, call{param: texts("id", "1")}, keyfunc.ErrMissing)
	wantKey(t, key, call{param: texts("id", "1"), header: texts("X-Tenant", "blue")}, "acct:blue:1")
	wantErr(t, keyfunc.Join(native("")), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.Join(native("a"), native("")), call{}, keyfunc.ErrMissing)
}

func TestOptionalPartMayBeEmpty(t *testing.T) {
	shelf := keyfunc.Optional(keyfunc.Query("shelf"))
	key := keyfunc.Join(keyfunc.Const("stock"), shelf, keyfunc.Query("sku"))
	wantKey(t, key, call{query: texts("sku", "7", "shelf", "a:b")}, "stock:a%3Ab:7")
	wantKey(t, key, call{query: texts("sku", "7", "shelf", "")}, "stock::7")
	wantKey(t, key, call{query: texts("sku", "7")}, "stock::7")
	wantErr(t, key, call{query: texts("shelf", "7")}, keyfunc.ErrMissing)
	wantKey(t, keyfunc.Join(native("a"), keyfunc.Optional(native(""))), call{}, "a:")
	wantKey(t, keyfunc.Join(keyfunc.Optional(native("")), native("a")), call{}, ":a")
	wantKey(t, keyfunc.Join(native("a"), keyfunc.Hash(shelf)), call{}, "a:")
	wrapped := func(r keyfunc.Request) (string, error) {
		key, err := shelf(r)
		if err != nil {
			return "", fmt.Errorf("shelf: %w", err)
		}
		return key, nil
	}
	wantKey(t, keyfunc.Join(native("a"), wrapped), call{}, "a:")
}

func TestJoinOfNothingButMissingPartsIsErrMissing(t *testing.T) {
	none := keyfunc.Optional(native(""))
	wantErr(t, keyfunc.Join(none), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.Join(none, none, none), call{}, keyfunc.ErrMissing)
}

func TestOptionalOnItsOwnIsErrMissing(t *testing.T) {
	none := keyfunc.Optional(keyfunc.Param("id"))
	wantErr(t, none, call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.Hash(none), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.All(none), call{}, keyfunc.ErrMissing)
	wantKey(t, none, call{param: texts("id", "7")}, "7")
}

// Only what is missing is optional: what is there must be right.
func TestOptionalPassesOtherErrorsOn(t *testing.T) {
	for _, tc := range []struct {
		f    keyfunc.Func
		want error
	}{
		{keyfunc.MustParse("{query.a|int}"), keyfunc.ErrInvalidValue},
		{failing(keyfunc.Skip), keyfunc.Skip},
		{failing(fmt.Errorf("%w: %w", keyfunc.Skip, keyfunc.ErrMissing)), keyfunc.Skip},
		{keyfunc.All(native("a"), native("b")), keyfunc.ErrInvalidValue},
	} {
		wantErr(t, keyfunc.Join(native("a"), keyfunc.Optional(tc.f)), call{query: texts("a", "x")}, tc.want)
	}
	wantKeys(t, keyfunc.Optional(keyfunc.All(native("a"), native("b"))), call{}, "a", "b")
}

func TestJoinReturnsTheFirstErrorAsItIs(t *testing.T) {
	first := errors.New("first")
	unreached := func(keyfunc.Request) (string, error) {
		t.Error("a part after the failing one was asked")
		return "", nil
	}
	_, err := keyfunc.Join(native("a"), failing(first), unreached)(call{})
	if err != first { //nolint:errorlint // as it is: not wrapped
		t.Errorf("error = %v, want %v itself", err, first)
	}
}

func TestSkipOfOnePartSkipsTheWhole(t *testing.T) {
	skip := failing(fmt.Errorf("read only: %w", keyfunc.Skip))
	for name, f := range map[string]keyfunc.Func{
		"join":   keyfunc.Join(native("a"), skip),
		"hash":   keyfunc.Hash(skip),
		"secret": keyfunc.Secret([]byte("k"), skip),
	} {
		t.Run(name, func(t *testing.T) { wantErr(t, f, call{}, keyfunc.Skip) })
	}
}

func TestJoinWithoutPartsPanics(t *testing.T) {
	got := panicOf(t, func() { keyfunc.Join() })
	want := "keyfunc: Join without parts: an empty key would lock all requests against each other"
	if got != want {
		t.Errorf("panic = %q, want %q", got, want)
	}
}

func TestJoinWithANilPartPanicsAndNamesIt(t *testing.T) {
	got := panicOf(t, func() { keyfunc.Join(native("a"), nil) })
	if want := "keyfunc: Join: part 2 is nil"; got != want {
		t.Errorf("panic = %q, want %q", got, want)
	}
}

func TestJoinKeepsItsOwnCopyOfTheParts(t *testing.T) {
	parts := []keyfunc.Func{native("a")}
	f := keyfunc.Join(parts...)
	parts[0] = native("b")
	wantKey(t, f, call{}, "a")
}

func TestHashIsSHA256OfTheKey(t *testing.T) {
	sum := sha256.Sum256([]byte("ann@example.com"))
	want := hex.EncodeToString(sum[:])
	r := call{query: texts("email", "ann@example.com")}
	wantKey(t, keyfunc.Hash(keyfunc.Query("email")), r, want)
	wantKey(t, keyfunc.MustParse("{query.email|hash}"), r, want)
}

func TestSecretIsHMACOfTheKey(t *testing.T) {
	mac := hmac.New(sha256.New, []byte("pepper"))
	mac.Write([]byte("ann@example.com"))
	want := hex.EncodeToString(mac.Sum(nil))
	r := call{query: texts("email", "ann@example.com")}
	wantKey(t, keyfunc.Secret([]byte("pepper"), keyfunc.Query("email")), r, want)
}

func TestSecretKeepsItsOwnCopyOfTheKey(t *testing.T) {
	key := []byte("pepper")
	f := keyfunc.Secret(key, native("a"))
	want := mustKey(t, f, call{})
	clear(key)
	wantKey(t, f, call{}, want)
}

func TestDigestOfAnEmptyKeyIsErrMissing(t *testing.T) {
	wantErr(t, keyfunc.Hash(native("")), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.Secret([]byte("k"), native("")), call{}, keyfunc.ErrMissing)
}

func TestDigestMistakesPanic(t *testing.T) {
	for _, tc := range []struct {
		name string
		f    func()
		want string
	}{
		{"Hash of nil", func() { keyfunc.Hash(nil) }, "Hash of a nil Func"},
		{"Optional of nil", func() { keyfunc.Optional(nil) }, "Optional of a nil Func"},
		{"Secret of nil", func() { keyfunc.Secret([]byte("k"), nil) }, "Secret of a nil Func"},
		{"Secret without key", func() { keyfunc.Secret(nil, native("a")) }, "Secret with an empty key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(panicOf(t, tc.f)); !strings.HasPrefix(got, "keyfunc: "+tc.want) {
				t.Errorf("panic = %q, want %q", got, tc.want)
			}
		})
	}
}
