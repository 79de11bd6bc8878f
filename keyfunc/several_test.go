package keyfunc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// wantKeys fails the test unless f names these keys, and returns no string that
// could be taken for several of them.
func wantKeys(tb testing.TB, f keyfunc.Func, r keyfunc.Request, want ...string) {
	tb.Helper()
	keys, err := keyfunc.KeysOf(f, r)
	if err != nil || !slices.Equal(keys.List(), want) {
		tb.Errorf("keys = %q, %v, want %q", keys.List(), err, want)
	}
	key, one := keys.One()
	if one != (len(want) == 1) || one && key != want[0] {
		tb.Errorf("the only key = %q, %v, want that of %q", key, one, want)
	}
	if text, err := f(r); len(want) > 1 && (text != "" || err == nil) {
		tb.Errorf("the Func returns %q, %v for several keys, want no string and an error", text, err)
	}
}

func TestAllNamesEachKey(t *testing.T) {
	transfer := keyfunc.All(keyfunc.MustParse("account:{param.from}"), keyfunc.MustParse("account:{param.to}"))
	wantKeys(t, transfer, call{param: texts("from", "a\nb", "to", "c")}, "account:a%0Ab", "account:c")
	wantKeys(t, transfer, call{param: texts("from", "c", "to", "a\nb")}, "account:c", "account:a%0Ab")
	wantKeys(t, transfer, call{param: texts("from", "a", "to", "a")}, "account:a")
}

func TestKeysOfAFuncThatNamesOne(t *testing.T) {
	wantKeys(t, keyfunc.Const("x"), call{}, "x")
	wantKeys(t, keyfunc.All(keyfunc.Const("x")), call{}, "x")
	wantKey(t, keyfunc.All(keyfunc.Const("x"), keyfunc.Const("x")), call{}, "x")
}

func TestKeysOfReturnsTheErrorOfTheFunc(t *testing.T) {
	want := errors.New("its own")
	if keys, err := keyfunc.KeysOf(failing(want), call{}); err != want || keys.List()[0] != "" { //nolint:errorlint // as it is: not wrapped
		t.Errorf("keys = %q, %v, want %v", keys.List(), err, want)
	}
}

func TestListOfKeysIsACopy(t *testing.T) {
	keys, err := keyfunc.KeysOf(keyfunc.All(keyfunc.Const("x"), keyfunc.Const("y")), call{})
	if err != nil {
		t.Fatal(err)
	}
	keys.List()[0] = "z"
	if got := keys.List()[0]; got != "x" {
		t.Errorf("first key = %q, want x", got)
	}
}

func TestAllFailsWithItsFirstFailure(t *testing.T) {
	x, skips := keyfunc.Const("x"), failing(keyfunc.Skip)
	wantErr(t, keyfunc.All(x, keyfunc.Param("none")), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.All(x, native("")), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.All(x, skips, native("")), call{}, keyfunc.Skip)
}

func TestAllLeavesOutWhatIsOptionalAndMissing(t *testing.T) {
	key := keyfunc.All(keyfunc.Optional(keyfunc.Query("coupon")), keyfunc.Param("id"))
	wantKeys(t, key, call{param: texts("id", "7")}, "7")
	wantKeys(t, key, call{param: texts("id", "7"), query: texts("coupon", "x")}, "x", "7")
	wantErr(t, key, call{query: texts("coupon", "x")}, keyfunc.ErrMissing)
}

func TestAllGoesAroundOthers(t *testing.T) {
	x, y := keyfunc.Const("x"), keyfunc.Const("y")
	list := keyfunc.All(x, y)
	for name, f := range map[string]keyfunc.Func{
		"Join": keyfunc.Join(x, list), "Hash": keyfunc.Hash(list), "Secret": keyfunc.Secret([]byte("s"), list), // one lock for both
	} {
		t.Run(name, func(t *testing.T) { wantErr(t, f, call{}, keyfunc.ErrInvalidValue) })
	}
	wantKeys(t, keyfunc.All(list, keyfunc.Const("z"), y), call{}, "x", "y", "z")
}

func TestAllNamesNoMoreThan64Keys(t *testing.T) {
	part := func(from, to int) keyfunc.Func {
		var fs []keyfunc.Func
		for i := from; i < to; i++ {
			fs = append(fs, native(fmt.Sprint(i)))
		}
		return keyfunc.All(fs...)
	}
	keys, err := keyfunc.KeysOf(keyfunc.All(part(0, 40), part(30, 64)), call{}) // ten are in both
	if got := len(keys.List()); err != nil || got != 64 {
		t.Errorf("%d keys, %v, want 64", got, err)
	}
	wantErr(t, keyfunc.All(part(0, 40), part(30, 65)), call{}, keyfunc.ErrInvalidValue)
}

// What a request brings is one key, whatever is in it.
func TestNoStringNamesSeveralKeys(t *testing.T) {
	list, _ := keyfunc.All(keyfunc.Const("x"), keyfunc.Const("y"))(call{})
	for _, key := range []string{list, "a\nb", "\na\nb", "\n\na\nb", "a,b", "[a b]", "a\x00b"} {
		wantKeys(t, native(key), call{}, key)
	}
}

func TestOwnFuncPassesSeveralKeysOn(t *testing.T) {
	list := keyfunc.All(keyfunc.Const("x"), keyfunc.Const("y"))
	asItIs := func(r keyfunc.Request) (string, error) {
		key, err := list(r)
		return "ignored" + key, err
	}
	wraps := func(r keyfunc.Request) (string, error) {
		_, err := list(r)
		return "", fmt.Errorf("accounts: %w", err)
	}
	forgets := func(r keyfunc.Request) (string, error) {
		key, _ := list(r)
		return key, nil
	}
	joins := func(r keyfunc.Request) (string, error) {
		_, err := list(r)
		return "", errors.Join(err, errors.New("and not allowed"))
	}
	for name, f := range map[string]keyfunc.Func{"as it is": asItIs, "wrapped": wraps} {
		keys, err := keyfunc.KeysOf(f, call{})
		if got := keys.List(); err != nil || !slices.Equal(got, []string{"x", "y"}) {
			t.Errorf("%s: keys = %q, %v, want x and y", name, got, err)
		}
	}
	wantKeys(t, forgets, call{}, "") // which no Locker takes
	if keys, err := keyfunc.KeysOf(joins, call{}); err == nil {
		t.Errorf("keys = %q beside another error, want none", keys.List())
	}
}

func TestAllRefusesMistakes(t *testing.T) {
	for want, fs := range map[string][]keyfunc.Func{
		"All of 0 Funcs": {}, "All of 65 Funcs": make([]keyfunc.Func, 65), "Func 2 is nil": {keyfunc.Const("x"), nil},
	} {
		got, _ := panicOf(t, func() { keyfunc.All(fs...) }).(string)
		if !strings.Contains(got, want) {
			t.Errorf("panic = %q, want it to say %q", got, want)
		}
	}
}
