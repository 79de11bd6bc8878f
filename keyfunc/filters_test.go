package keyfunc_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// filtered returns what template makes of the parameter v.
func filtered(t *testing.T, template, v, want string) {
	t.Helper()
	wantKey(t, keyfunc.MustParse(template), call{param: texts("v", v)}, want)
}

func TestIntFilterGivesEqualNumbersOneSpelling(t *testing.T) {
	nines := strings.Repeat("9", 100)
	for _, tc := range []struct{ value, want string }{
		{"7", "7"},
		{"+7", "7"},
		{"007", "7"},
		{"-7", "-7"},
		{"-007", "-7"},
		{"0", "0"},
		{"-0", "0"},
		{"+000", "0"},
		{"10", "10"},
		{"000" + nines, nines},
	} {
		filtered(t, "{param.v|int}", tc.value, tc.want)
	}
}

func TestIntFilterRefusesOtherText(t *testing.T) {
	for _, v := range []string{"abc", "+", "-", "--1", "+-1", "1.0", "1e3", "0x1", "1_000", " 1", "1 ", "1\n", "٣", "\xff"} {
		t.Run(v, func(t *testing.T) {
			wantErr(t, keyfunc.MustParse("{param.v|int}"), call{param: texts("v", v)}, keyfunc.ErrInvalidValue)
		})
	}
}

func TestUUIDFilterGivesOneSpelling(t *testing.T) {
	const want = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for _, v := range []string{
		want,
		"0F8FAD5B-D9CB-469F-A165-70867728950E",
		"0f8fad5bd9cb469fa16570867728950e",
		"{0f8fad5b-d9cb-469f-a165-70867728950E}",
		"urn:uuid:0f8fad5b-d9cb-469f-a165-70867728950e",
		"URN:UUID:0f8fad5b-d9cb-469f-a165-70867728950e",
	} {
		filtered(t, "{param.v|uuid}", v, want)
	}
}

func TestUUIDFilterRefusesOtherText(t *testing.T) {
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for _, v := range []string{
		"42", id[1:], id + "0", "g" + id[1:], "-" + id[1:],
		"0f8fad5bd-9cb-469f-a165-70867728950e",
		"0f8fad5b_d9cb_469f_a165_70867728950e",
		"(" + id + ")", "{" + id + ")", "(" + id + "}",
		"urn:guid:" + id,
		"0f8fad5bd9cb469fa16570867728950", "0f8fad5bd9cb469fa16570867728950g",
		"\xff" + id[1:], strings.Repeat("é", 16), strings.Repeat("é", 18),
	} {
		t.Run(v, func(t *testing.T) {
			wantErr(t, keyfunc.MustParse("{param.v|uuid}"), call{param: texts("v", v)}, keyfunc.ErrInvalidValue)
		})
	}
}

func TestLowerFilter(t *testing.T) {
	filtered(t, "{param.v|lower}", "Ann@Example.COM", "ann@example.com")
	filtered(t, "{param.v|lower}", "GRÖSSE", "grösse")
}

// strings.ToLower makes U+FFFD of every byte that is not UTF-8, and so one
// value of many.
func TestLowerFilterKeepsWhatIsNotUTF8Apart(t *testing.T) {
	filtered(t, "{param.v|lower}", "AÖ\xff", "aö%FF")
	filtered(t, "{param.v|lower}", "AÖ\xfe", "aö%FE")
	filtered(t, "{param.v|lower}", "\ufffd\xff", "\ufffd%FF")
}

func TestHashFilterHashesTheValueItself(t *testing.T) {
	sum := sha256.Sum256([]byte("100% {a}"))
	filtered(t, "{param.v|hash}", "100% {a}", hex.EncodeToString(sum[:]))
}

func TestFiltersWorkFromLeftToRight(t *testing.T) {
	sum := sha256.Sum256([]byte("ann"))
	filtered(t, "{param.v|lower|hash}", "ANN", hex.EncodeToString(sum[:]))
	sum = sha256.Sum256([]byte("ANN"))
	filtered(t, "{param.v|hash|lower}", "ANN", hex.EncodeToString(sum[:]))
	filtered(t, "{param.v|int|int}", "+07", "7")
}

// A handler that reads an int sees 0 in both, one that reads a string or a
// pointer does not.
func TestMissingIsZeroToTheIntFilterOnly(t *testing.T) {
	sum := sha256.Sum256([]byte("0"))
	for _, r := range []call{{}, {fields: texts("shelf", "")}, {fields: texts("shelf", "0")}, {fields: texts("shelf", "-0")}} {
		wantKey(t, keyfunc.MustParse("p:{body.shelf?|int}"), r, "p:0")
		wantKey(t, keyfunc.MustParse("{body.shelf?|int}"), r, "0")
		wantKey(t, keyfunc.MustParse("p:{body.shelf?|lower|int|hash}"), r, "p:"+hex.EncodeToString(sum[:]))
	}
	for _, filter := range []string{"", "|lower", "|uuid", "|hash"} {
		wantKey(t, keyfunc.MustParse("p:{body.shelf?"+filter+"}"), call{}, "p:")
	}
	wantErr(t, keyfunc.MustParse("{body.shelf|int}"), call{}, keyfunc.ErrMissing)
}
