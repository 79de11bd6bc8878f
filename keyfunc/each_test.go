package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

func TestEachNamesAKeyForEachElement(t *testing.T) {
	orders := keyfunc.Each("body.ids", keyfunc.MustParse("order:{body.ids}"))
	wantKeys(t, orders, array("ids", "1", "2", "a:b"), "order:1", "order:2", "order:a%3Ab")
	wantKeys(t, orders, array("ids", "2", "1", "2"), "order:2", "order:1")
	wantKeys(t, orders, array("ids", "2"), "order:2")
	one := keyfunc.MustParse("order:{param.id}") // of another route: the same lock
	wantKey(t, one, call{param: texts("id", "a:b")}, "order:a%3Ab")
}

func TestEachReadsFieldsOfElementsAndTheRequestAround(t *testing.T) {
	r := call{
		route: "/carts/:cart", param: texts("cart", "c"), query: texts("shop", "berlin"), form: texts("f", "1"), cookie: texts("k", "2"),
		fields: texts("cart.owner", "ann", "cart.itemsize", "9"),
		arrays: map[string][]map[string]string{"cart.items": {texts("sku", "a", "lot.id", "7"), texts("sku", "b", "lot.id", "8")}},
	}
	key := keyfunc.Each("body.cart.items", keyfunc.MustParse("{query.shop}:{params}:{form.f}:{cookie.k}:{body.cart.owner}:{body.cart.itemsize}:{body.cart.items.sku}:{body.cart.items.lot.id|int}"))
	wantKeys(t, key, r, "berlin:c:1:2:ann:9:a:7", "berlin:c:1:2:ann:9:b:8")
	wantKeys(t, keyfunc.All(key, keyfunc.Const("all")), r, "berlin:c:1:2:ann:9:a:7", "berlin:c:1:2:ann:9:b:8", "all")
	both := keyfunc.Each("body.cart.items", keyfunc.All(keyfunc.Body("cart.items.sku"), keyfunc.Body("cart.items.lot.id")))
	wantKeys(t, both, r, "a", "7", "b", "8")
}

// A door's Key asks for its own kind of Request.
func TestEachShowsWhatItIsPutAround(t *testing.T) {
	own := func(r keyfunc.Request) (string, error) {
		c, ok := keyfunc.As[call](r)
		if !ok {
			return "", errors.New("another Request")
		}
		id, _, _ := r.Body("ids")
		return c.method + id, nil
	}
	r := array("ids", "1", "2")
	r.method = "PUT"
	wantKeys(t, keyfunc.Each("body.ids", own), r, "PUT1", "PUT2")
}

func TestEachTakesUpTo64Elements(t *testing.T) {
	key := keyfunc.Each("body.ids", keyfunc.Body("ids"))
	var ids []string
	for i := range 64 {
		ids = append(ids, fmt.Sprint(i))
	}
	wantKeys(t, key, array("ids", ids...), ids...)
	_, err := key(array("ids", append(ids, "0")...))
	if want := `keyfunc: value cannot be used: body "ids" has more than 64 elements`; !errors.Is(err, keyfunc.ErrInvalidValue) || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
	two := keyfunc.Each("body.ids", keyfunc.All(keyfunc.Body("ids"), keyfunc.MustParse("x{body.ids}")))
	wantErr(t, two, array("ids", ids[:33]...), keyfunc.ErrInvalidValue)
}

func TestEachRefusesWhatIsMissing(t *testing.T) {
	key := keyfunc.Each("body.ids", keyfunc.Body("ids"))
	wantErr(t, key, call{}, keyfunc.ErrMissing)
	wantErr(t, key, array("ids"), keyfunc.ErrMissing)
	wantErr(t, key, array("ids", "1", ""), keyfunc.ErrMissing)
	empty := func(r keyfunc.Request) (string, error) { s, _, err := r.Body("ids"); return s, err }
	wantErr(t, keyfunc.Each("body.ids", empty), array("ids", "1", ""), keyfunc.ErrMissing)
	wantErr(t, keyfunc.Each("body.ids", failing(keyfunc.Skip)), array("ids", "1"), keyfunc.Skip)

	optional := keyfunc.Each("body.ids", keyfunc.Optional(keyfunc.Body("ids")))
	wantKeys(t, optional, array("ids", "1", "", "2"), "1", "2")
	wantErr(t, optional, array("ids", "", ""), keyfunc.ErrMissing)
	wantKeys(t, keyfunc.All(keyfunc.Const("x"), keyfunc.Optional(key)), call{}, "x")

	tooLarge := &http.MaxBytesError{Limit: 5}
	_, err := key(call{bodyErr: tooLarge})
	if got, ok := errors.AsType[*http.MaxBytesError](err); !ok || got != tooLarge {
		t.Errorf("error = %v, want it to wrap the Request's", err)
	}
	_, err = key(struct{ keyfunc.Request }{call{}})
	if want := `keyfunc: body "ids": a struct { keyfunc.Request } has no arrays`; fmt.Sprint(err) != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

// A key that forgets the element would be one lock for all of them.
func TestEachRefusesAKeyThatDoesNotReadItsElement(t *testing.T) {
	_, err := keyfunc.Each("body.ids", keyfunc.MustParse("order:{method}"))(func() call { r := array("ids", "1", "2"); r.method = "PUT"; return r }())
	want := `keyfunc: value cannot be used: body "ids" is taken apart by Each, whose key does not read {body.ids}: all elements would take one lock`
	if fmt.Sprint(err) != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

func TestEachRefusesMistakes(t *testing.T) {
	for _, tc := range []struct {
		f    func()
		want string
	}{
		{func() { keyfunc.Each("ids", keyfunc.Body("ids")) }, `keyfunc: Each of "ids": it takes an array in the body, as in Each("body.ids", …)`},
		{func() { keyfunc.Each("query.ids", keyfunc.Query("ids")) }, `keyfunc: Each of "query.ids": it takes an array in the body, as in Each("body.ids", …)`},
		{func() { keyfunc.Each("body.", keyfunc.Body("ids")) }, `keyfunc: Each of "body.": it takes an array in the body, as in Each("body.ids", …)`},
		{func() { keyfunc.Each("body.ids", nil) }, `keyfunc: Each of "body.ids": the key function is nil`},
	} {
		if got := panicOf(t, tc.f); got != tc.want {
			t.Errorf("panic = %v\nwant    %s", got, tc.want)
		}
	}
}

// Of two arrays, the same set of elements gives the same set of keys, and
// different sets give different ones.
func TestEachTellsArraysApart(t *testing.T) {
	key := keyfunc.Each("body.ids", keyfunc.MustParse("{body.ids}:{method}"))
	values := allStrings([6]string{":", "%", "{", "3", "A", "P"}, 2)[1:]
	seen := make(map[string]string)
	for _, a := range values {
		for _, b := range values {
			r := array("ids", a, b)
			r.method = "P"
			keys, err := keyfunc.KeysOf(key, r)
			if err != nil {
				t.Fatal(err)
			}
			list := keys.List()
			if want := map[bool]int{true: 1, false: 2}[a == b]; len(list) != want {
				t.Fatalf("%q and %q give the keys %q", a, b, list)
			}
			for i, name := range map[int]string{0: a, len(list) - 1: b} {
				checkValid(t, list[i])
				if other, ok := seen[list[i]]; ok && other != name {
					t.Fatalf("%q and %q both give %q", other, name, list[i])
				}
				seen[list[i]] = name
			}
		}
	}
}
