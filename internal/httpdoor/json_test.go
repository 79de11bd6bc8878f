package httpdoor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/door"
)

// fieldOf is what a door's Body returns for a body.
func fieldOf(body, path string) (string, bool, error) {
	if err := checkJSON([]byte(body)); err != nil {
		return "", false, err
	}
	return field([]byte(body), path)
}

func TestFieldIsWhatEveryHandlerSees(t *testing.T) {
	for _, tc := range []struct{ body, path, want string }{
		{`{"id":"a"}`, "id", "a"},
		{`{"id":42}`, "id", "42"},
		{`{"id":true}`, "id", "true"},
		{`{"id":false,"x":[1,{"id":2}]}`, "id", "false"},
		{" {\t\"id\"\r:\n42 } ", "id", "42"},
		{`{"x":{"id":1},"id":2,"y":"\"id\":3"}`, "id", "2"},
		{`{"\u0069d":"\u0061\n"}`, "id", "a\n"},
		{`{"a":{"b":{"c":"deep"}}}`, "a.b.c", "deep"},
		{`{"ä":"ö"}`, "ä", "ö"},
		{`{"id":"\ufffd"}`, "id", "\ufffd"},
		{`{"id":"\ud83d\ude00"}`, "id", "😀"},
		{`{"id":"\\ud800"}`, "id", `\ud800`},
		// The same more than once.
		{`{"id":2,"id":2}`, "id", "2"},
		{`{"id":2,"x":1,"\u0069d":2.0,"id":"2"}`, "id", "2"},
		{`{"a":{"b":2},"a":{"c":1,"b":2}}`, "a.b", "2"},
	} {
		got, ok, err := fieldOf(tc.body, tc.path)
		if got != tc.want || !ok || err != nil {
			t.Errorf("%s of %s = %q, %v, %v; want %q", tc.path, tc.body, got, ok, err, tc.want)
		}
	}
}

func TestMissingField(t *testing.T) {
	for _, tc := range []struct{ body, path string }{
		{`{}`, "id"},
		{`null`, "id"},
		{`{"id":null}`, "id"},
		{`{"x":{"id":1}}`, "id"},
		{`{"a":null}`, "a.b"},
		{`{"a":{}}`, "a.b"},
		{`{"a.b":1}`, "a.b"},
		{`{"a":{"":1}}`, "a.b"},
		{`{"id":null,"id":null}`, "id"},
		{`{"a":null,"a":{}}`, "a.b"},
		{`{"x":1,"x":2}`, "id"},
	} {
		got, ok, err := fieldOf(tc.body, tc.path)
		if got != "" || ok || err != nil {
			t.Errorf("%s of %s = %q, %v, %v; want nothing", tc.path, tc.body, got, ok, err)
		}
	}
}

func TestFieldIsRefused(t *testing.T) {
	const deepest = 10000 // that encoding/json reads
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, tc := range []struct {
		body, path string
		want       error
	}{
		{``, "id", errJSON},
		{` `, "id", errJSON},
		{`{"id":1`, "id", errJSON},
		{`{"id":1}}`, "id", errJSON},
		{`{"id":1}{"id":2}`, "id", errJSON},
		{`{"id":1} x`, "id", errJSON},
		{`{'id':1}`, "id", errJSON},
		{`{"id":01}`, "id", errJSON},
		{"\ufeff" + `{"id":1}`, "id", errJSON},
		{`[{"id":1}]`, "id", errNotObject},
		{`"id"`, "id", errNotObject},
		{`{"a":1}`, "a.b", errNotObject},
		{`{"a":[{"b":1}]}`, "a.b", errNotObject},
		{`{"id":{}}`, "id", errNotScalar},
		{`{"id":[1]}`, "id", errNotScalar},
		// A struct and a map would differ.
		{`{"ID":1}`, "id", errCase},
		{`{"id":1,"Id":2}`, "id", errCase},
		{`{"Id":1,"id":2}`, "id", errCase},
		{`{"A":{"b":1}}`, "a.b", errCase},
		{`{"a":{"B":1}}`, "a.b", errCase},
		{`{"\u017fku":1}`, "sku", errCase}, // the long s is an s to encoding/json
		{`{"\u212aey":1}`, "key", errCase}, // and the Kelvin sign a k
		// Other packages compare names in lower or upper case.
		{`{"id":1,"\u0130d":2}`, "id", errCase},
		{`{"id":1,"İd":2}`, "id", errCase},
		{`{"id":1,"ıd":2}`, "id", errCase},
		{`{"a":{"İd":1}}`, "a.id", errCase},
		// Some readers replace what is no Unicode, some leave it, and fastjson takes what follows as well.
		{"{\"id\":\"\xff\"}", "id", errText},
		{"{\"id\":\"\xed\xa0\x80\"}", "id", errText}, // half of a pair, as three bytes
		{`{"id":"\ud800"}`, "id", errText},
		{`{"id":"\udc00"}`, "id", errText},
		{`{"id":"\ude00\ud83d"}`, "id", errText},
		{`{"id":"\ud800\u0061"}`, "id", errText},
		{`{"id":"\ud800a"}`, "id", errText},
		{`{"id":"\ud800\\udc00"}`, "id", errText},
		{`{"id":"\ud800\ud83d\ude00"}`, "id", errText},
		// Readers that take the first, or the last, would differ.
		{`{"id":1,"id":2}`, "id", door.ErrTwice},
		{`{"id":1,"id":2,"id":1}`, "id", door.ErrTwice},
		{`{"id":1,"\u0069d":2}`, "id", door.ErrTwice},
		{`{"id":1,"id":null}`, "id", door.ErrTwice},
		{`{"id":null,"id":2}`, "id", door.ErrTwice},
		{`{"id":"","id":"2"}`, "id", door.ErrTwice},
		{`{"id":[],"id":2}`, "id", errNotScalar},
		{`{"a":{"b":1,"b":2}}`, "a.b", door.ErrTwice},
		{`{"a":{"b":1},"a":{"b":2}}`, "a.b", door.ErrTwice},
		{`{"a":{"c":2},"a":{"b":1}}`, "a.b", door.ErrTwice},
		{`{"a":null,"a":{"b":1}}`, "a.b", door.ErrTwice},
		{`{"a":1,"a":{"b":1}}`, "a.b", errNotObject},
		{`{"a":{"B":1},"a":{"b":1}}`, "a.b", errCase},
		{`{"a":{"b":1},"a":{"c":2}}`, "a.b", door.ErrTwice},
		{`{"a":{"b":1},"a":null}`, "a.b", door.ErrTwice},
		{nested(deepest + 1), "a", errJSON},
		{strings.Repeat("[", 20000), "a", errJSON},
		{`{"id":1,"x":` + strings.Repeat("[", deepest) + strings.Repeat("]", deepest) + `}`, "id", errJSON},
	} {
		got, ok, err := fieldOf(tc.body, tc.path)
		if got != "" || ok || !errors.Is(err, tc.want) {
			t.Errorf("%s of %.80s = %q, %v, %v; want error %v", tc.path, tc.body, got, ok, err, tc.want)
		}
	}
	if got, ok, err := fieldOf(nested(deepest), strings.Repeat(".a", deepest)[1:]); got != "1" || !ok || err != nil {
		t.Errorf("field at the greatest depth = %q, %v, %v; want 1", got, ok, err)
	}
	beside := `{"id":1,"x":` + strings.Repeat("[", deepest-1) + strings.Repeat("]", deepest-1) + `}`
	if got, ok, err := fieldOf(beside, "id"); got != "1" || !ok || err != nil {
		t.Errorf("field beside what nests deep = %q, %v, %v; want 1", got, ok, err)
	}
}

// Handlers that read the same body, each in its own way.
type (
	asAny    struct{ ID, A any }
	asText   struct{ ID string }
	asFloat  struct{ ID float64 }
	asInt    struct{ ID int64 }
	asNumber struct{ ID json.Number }
	nestedAs struct {
		A struct{ ID any }
	}
)

// views decodes body in every way and calls see with what is found at path. A
// way that refuses the body does not count.
func views(body []byte, path string, see func(how string, value any)) {
	var m map[string]any
	if json.Unmarshal(body, &m) == nil {
		value := m["id"]
		if path == "a.id" {
			nested, _ := m["a"].(map[string]any)
			value = nested["id"]
		}
		see("map", value)
	}
	if path == "a.id" {
		var n nestedAs
		if json.Unmarshal(body, &n) == nil {
			see("nested struct", n.A.ID)
		}
		return
	}
	var a asAny
	if json.Unmarshal(body, &a) == nil {
		see("any", a.ID)
	}
	var s asText
	if json.Unmarshal(body, &s) == nil {
		see("string", s.ID)
	}
	var f asFloat
	if json.Unmarshal(body, &f) == nil {
		see("float64", f.ID)
	}
	var i asInt
	if json.Unmarshal(body, &i) == nil {
		see("int64", i.ID)
	}
	var n asNumber
	if json.Unmarshal(body, &n) == nil && n.ID != "" {
		if f, err := n.ID.Float64(); err == nil {
			see("json.Number", f)
		}
	}
}

// sameValue reports whether a key's text stands for what a handler saw.
func sameValue(text string, value any) bool {
	switch value := value.(type) {
	case string:
		return text == value
	case bool:
		return text == strconv.FormatBool(value)
	case int64:
		return text == strconv.FormatInt(value, 10)
	case float64:
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && f == value
	}
	return false
}

func isZero(value any) bool {
	return value == nil || value == "" || value == 0.0 || value == int64(0)
}

// checkViews fails if a handler sees something else in body than the key.
func checkViews(t *testing.T, body []byte) {
	t.Helper()
	for _, path := range []string{"id", "a.id"} {
		text, ok, err := fieldOf(string(body), path)
		if err != nil {
			continue // refused: no handler runs
		}
		views(body, path, func(how string, value any) {
			if ok && !sameValue(text, value) {
				t.Errorf("%s of %s is %q in the key and %v to a handler with %s", path, body, text, value, how)
			}
			if !ok && !isZero(value) {
				t.Errorf("%s of %s is missing in the key and %v to a handler with %s", path, body, value, how)
			}
		})
	}
}

func TestHandlersAgreeWithTheKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"id", "id", "id", "ID", "iD", `\u0069d`, "a", "a", "A", "x", "id ", ""}
	var value func(depth int) string
	object := func(depth int) string {
		members := make([]string, rng.IntN(4))
		for i := range members {
			members[i] = fmt.Sprintf(`"%s":%s`, names[rng.IntN(len(names))], value(depth+1))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	scalars := []string{"1", "2", "1.0", "1e0", `"1"`, `"2"`, `""`, "null", "true", "-0", "0", "[]", `[{"id":1}]`, "9007199254740993"}
	value = func(depth int) string {
		if depth < 3 && rng.IntN(3) == 0 {
			return object(depth)
		}
		return scalars[rng.IntN(len(scalars))]
	}
	for range 10_000 {
		checkViews(t, []byte(object(0)))
	}
}

func FuzzHandlersAgreeWithTheKey(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"ID":2}`, `{"a":{"id":1},"a":{}}`, `{"id":"\ud800"}`, `{"id":1e400}`, `{"id":-0.0}`, "{\"i\xffd\":1}",
		`{"id":1.0000000000000000000001}`, `{"a":{"id":[{}]},"id":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(checkViews)
}

func TestNumbersHaveOneSpelling(t *testing.T) {
	for _, tc := range []struct {
		want     string
		literals []string
	}{
		{"0", []string{"0", "-0", "0.0", "-0.00", "0e5", "0e-99999999999999999999", "-0E+7"}},
		{"1", []string{"1", "1.0", "1e0", "10e-1", "0.1e1", "1.000E+00", "1000000000000000000000e-21"}},
		{"-1", []string{"-1", "-1.0", "-1e0"}},
		{"100", []string{"100", "1e2", "100.0", "1E+2", "0.001e5"}},
		{"1234567", []string{"1234567", "1.234567e6", "1234567.0"}},
		{"9007199254740993", []string{"9007199254740993"}},
		{"9223372036854775808", []string{"9223372036854775808", "9223372036854775808"}},
		{"18446744073709551615", []string{"18446744073709551615"}},
		{"100000000000000000000", []string{"100000000000000000000", "1e20", "1.0E20"}},
		{"1e+300", []string{"1e300", "0.1e301", "1" + strings.Repeat("0", 300)}},
		{"0.1", []string{"0.1", "0.10", "1e-1"}},
		{"1.5", []string{"1.5", "15e-1", "1.50"}},
	} {
		for _, literal := range tc.literals {
			if got, err := number(literal); got != tc.want || err != nil {
				t.Errorf("number(%s) = %q, %v; want %q", literal, got, err, tc.want)
			}
		}
	}
}

func TestNumbersThatReadersConfuseAreRefused(t *testing.T) {
	for _, literal := range []string{
		"42.00000000000000000001", "0.1000000000000000055511151231257827", "1e400", "-1e400", "1e-400", "1e99999999999999999999",
		"1e-99999999999999999999", "18446744073709551617", "9007199254740993.0", "9.007199254740993e15", "100000000000000000001",
	} {
		if got, err := number(literal); got != "" || !errors.Is(err, errNumber) {
			t.Errorf("number(%s) = %q, %v; want an error", literal, got, err)
		}
	}
}

func TestNumbersAreOnlyEqualIfTheyAre(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		f := math.Float64frombits(rng.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		literal, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := number(string(literal))
		if err != nil {
			t.Fatalf("number(%s): %v", literal, err)
		}
		if back, err := strconv.ParseFloat(got, 64); back != f || err != nil {
			t.Fatalf("number(%s) = %q, which is %v", literal, got, back)
		}
	}
}
