package keyfunc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

func TestAllNamesEachKey(t *testing.T) {
	transfer := keyfunc.All(keyfunc.MustParse("account:{param.from}"), keyfunc.MustParse("account:{param.to}"))
	list, err := transfer(call{param: map[string]string{"from": "a\nb", "to": "c"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := keyfunc.Keys(list), []string{"account:a%0Ab", "account:c"}; !keyfunc.Several(list) || !slices.Equal(got, want) {
		t.Errorf("keys = %q, want %q", got, want)
	}
}

func TestAllOfOneIsThatKey(t *testing.T) {
	key := mustKey(t, keyfunc.All(keyfunc.Const("x")), call{})
	if keyfunc.Several(key) || !slices.Equal(keyfunc.Keys(key), []string{"x"}) {
		t.Errorf("key = %q, want the one", key)
	}
}

func TestAllFailsWithItsFirstFailure(t *testing.T) {
	x := keyfunc.Const("x")
	empty := func(keyfunc.Request) (string, error) { return "", nil }
	skips := func(keyfunc.Request) (string, error) { return "", keyfunc.Skip }
	wantErr(t, keyfunc.All(x, keyfunc.Param("none")), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.All(x, empty), call{}, keyfunc.ErrMissing)
	wantErr(t, keyfunc.All(x, skips, empty), call{}, keyfunc.Skip)
}

func TestAllGoesAroundOthers(t *testing.T) {
	x, y := keyfunc.Const("x"), keyfunc.Const("y")
	list := keyfunc.All(x, y)
	for _, f := range []keyfunc.Func{
		keyfunc.Join(x, list), keyfunc.Hash(list), keyfunc.Secret([]byte("s"), list), // one lock for both
		keyfunc.All(x, func(keyfunc.Request) (string, error) { return "a\nb", nil }),
	} {
		wantErr(t, f, call{}, keyfunc.ErrInvalidValue)
	}
	nested, err := keyfunc.All(list, keyfunc.Const("z"))(call{})
	if got := keyfunc.Keys(nested); err != nil || !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Errorf("All in All = %q, %v", got, err)
	}
	nine := keyfunc.All(x, x, x, x, x, x, x, x, x)
	wantErr(t, keyfunc.All(nine, nine), call{}, keyfunc.ErrInvalidValue)
}

// A line break in a value must not make two keys of one.
func TestNobodyElseMakesAList(t *testing.T) {
	for _, key := range []string{"a\nb", "\na\nb", "\n\na\nb"} {
		if got := keyfunc.Keys(key); keyfunc.Several(key) || len(got) != 1 {
			t.Errorf("%q is a list of %q", key, got)
		}
	}
}

func TestAllRefusesMistakes(t *testing.T) {
	for want, fs := range map[string][]keyfunc.Func{
		"All of 0 Funcs": {}, "All of 17 Funcs": make([]keyfunc.Func, 17), "Func 2 is nil": {keyfunc.Const("x"), nil},
	} {
		got, _ := panicOf(t, func() { keyfunc.All(fs...) }).(string)
		if !strings.Contains(got, want) {
			t.Errorf("panic = %q, want it to say %q", got, want)
		}
	}
}
