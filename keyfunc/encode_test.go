package keyfunc_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

func TestValuesStayReadable(t *testing.T) {
	order := keyfunc.MustParse("order:{param.id}")
	for _, id := range []string{
		"42",
		"0f8fad5b-d9cb-469f-a165-70867728950e",
		"ann.o'neil+shop@example.com",
		"größe/東京 🙂",
		"a b,c;d#e?f&g=h|i\"j\\k<l>m[n]",
	} {
		wantKey(t, order, call{param: texts("id", id)}, "order:"+id)
	}
}

func TestWhatAKeyMustNotHoldIsEscaped(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"percent", "100%", "100%25"},
		{"braces", "{tag}", "%7Btag%7D"},
		{"line break", "a\r\nb", "a%0D%0Ab"},
		{"null byte", "\x00", "%00"},
		{"last control before the blank", "\x1f ", "%1F "},
		{"delete", "~\x7f", "~%7F"},
		{"C1 controls", "\u0080\u0085\u009f\u00a0", "%C2%80%C2%85%C2%9F\u00a0"},
		{"not UTF-8", "\xff\xc3", "%FF%C3"},
		{"broken rune before a letter", "\xe2\x82x", "%E2%82x"},
		{"the replacement character itself", "\ufffd", "\ufffd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := call{param: texts("id", tc.value)}
			wantKey(t, keyfunc.Param("id"), r, tc.want)
			wantKey(t, keyfunc.MustParse("order:{param.id}"), r, "order:"+tc.want)
		})
	}
}

func TestKeyOf200BytesIsWrittenInFull(t *testing.T) {
	value := strings.Repeat("x", 200)
	wantKey(t, keyfunc.Param("id"), call{param: texts("id", value)}, value)
}

func TestLongKeyKeepsItsHeadAndIsHashed(t *testing.T) {
	value := strings.Repeat("x", 201)
	sum := sha256.Sum256([]byte(value))
	want := value[:140] + "#" + hex.EncodeToString(sum[:])
	r := call{param: texts("id", value)}
	wantKey(t, keyfunc.Param("id"), r, want)
	wantKey(t, keyfunc.Params("id"), r, want)
	wantKey(t, keyfunc.MustParse("{param.id}"), r, want)
	wantKey(t, keyfunc.Join(native(value)), r, want)
	wantKey(t, keyfunc.Const(value), r, want)
}

func TestLongKeysThatDifferAtTheEndStayDifferent(t *testing.T) {
	value := strings.Repeat("x", 4000)
	a := mustKey(t, keyfunc.Param("id"), call{param: texts("id", value+"1")})
	b := mustKey(t, keyfunc.Param("id"), call{param: texts("id", value+"2")})
	if a == b {
		t.Errorf("both keys are %q", a)
	}
}

// The head must be cut neither inside a rune nor inside an escape, and the
// whole must stay longer than any key that is written in full. Moving runes of
// every width over the cut shows both.
func TestHashedKeyIsLongerThanAnyOtherAndNeverBroken(t *testing.T) {
	for _, unit := range []string{"x", "%", "é", "€", "🙂", "\xff", "\u0085"} {
		for shift := range 12 {
			value := strings.Repeat("x", shift) + strings.Repeat(unit, 250)
			key := mustKey(t, keyfunc.Param("id"), call{param: texts("id", value)})
			if len(key) <= 200 {
				t.Errorf("%q after %d: hashed key has %d bytes, want more than 200", unit, shift, len(key))
			}
			head, _, _ := strings.Cut(key, "#")
			if i := strings.LastIndexByte(head, '%'); i >= 0 && i > len(head)-3 {
				t.Errorf("%q after %d: head ends inside an escape: %q", unit, shift, head)
			}
		}
	}
}

func TestValueThatLooksLikeAHashedKeyDoesNotCollide(t *testing.T) {
	long := mustKey(t, keyfunc.Param("id"), call{param: texts("id", strings.Repeat("x", 300))})
	forged := mustKey(t, keyfunc.Param("id"), call{param: texts("id", long)})
	if forged == long {
		t.Errorf("the value %q gives itself as key, and so does a longer value", long)
	}
}

func TestValueOver8KiBIsRefused(t *testing.T) {
	fits, tooLong := strings.Repeat("x", 8<<10), strings.Repeat("x", 8<<10+1)
	request := func(s string) call {
		return call{
			method: s, route: "/:id",
			param: texts("id", s), query: texts("id", s), header: texts("id", s), fields: texts("id", s),
			values: map[string]any{"id": s},
		}
	}
	own := func(r keyfunc.Request) (string, error) { s, _ := r.Param("id"); return s, nil }
	for name, f := range map[string]keyfunc.Func{
		"param":    keyfunc.Param("id"),
		"query":    keyfunc.Query("id"),
		"header":   keyfunc.Header("id"),
		"body":     keyfunc.Body("id"),
		"value":    keyfunc.Value("id"),
		"route":    keyfunc.Route(),
		"params":   keyfunc.Params(),
		"template": keyfunc.MustParse("{query.id?|hash}"),
		"join":     keyfunc.Join(own),
		"hash":     keyfunc.Hash(own),
		"secret":   keyfunc.Secret([]byte("k"), own),
	} {
		t.Run(name, func(t *testing.T) {
			mustKey(t, f, request(fits))
			wantErr(t, f, request(tooLong), keyfunc.ErrInvalidValue)
		})
	}
}
