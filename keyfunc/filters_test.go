package keyfunc_test

import (
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
)

// filtered returns what template makes of the parameter v.
func filtered(t *testing.T, template, v, want string) {
	t.Helper()
	wantKey(t, keyfunc.MustParse(template), call{param: texts("v", v)}, want)
}

// An example is a value that a filter changes, and what it makes of it. What a filter has of its own
// is tested besides, in a test of its own.
type example struct {
	value, want string
	missing     string // what it makes of an optional value that is missing
	digest      bool   // it changes its own result, as no other may
}

// examples has one for each filter. The fuzz test asks it, too.
var examples = map[string]example{
	"hash":        {value: "ann", want: "49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1", digest: true},
	"idempotency": {value: `"8e03978e-40d5"`, want: "8e03978e-40d5"},
	"int":         {value: "+007", want: "7", missing: "0"},
	"lower":       {value: "Ann@Example.COM", want: "ann@example.com"},
	"trim":        {value: "\t ann b\u00a0\n", want: "ann b"},
	"uuid":        {value: "0F8FAD5BD9CB469FA16570867728950E", want: "0f8fad5b-d9cb-469f-a165-70867728950e"},
}

func TestEveryFilterDoesWhatItsExampleSays(t *testing.T) {
	for name := range examples {
		if !slices.Contains(keyfunc.FilterNames(), name) {
			t.Errorf("examples has a filter %q, which is not in knownFilters, in filters.go", name)
		}
	}
	for _, name := range keyfunc.FilterNames() {
		example, ok := examples[name]
		if !ok {
			t.Errorf("the filter %q has no example: add one to examples, above this test", name)
			continue
		}
		if example.value == example.want {
			t.Errorf("the example of the filter %q shows nothing: take a value that it changes", name)
		}
		filtered(t, "{param.v|"+name+"}", example.value, example.want)
		wantKey(t, keyfunc.MustParse("p:{body.v?|"+name+"}"), call{}, "p:"+example.missing)
		if !example.digest {
			filtered(t, "{param.v|"+name+"}", example.want, example.want)
		}
	}
}

// listed finds the lines of a doc comment that are indented and begin with a word, as in "lower   lower case".
var listed = regexp.MustCompile(`(?m)^\t([a-z0-9]+) {2,}\S`)

func TestEveryFilterIsInTheDocumentationOfParse(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "template.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "Parse" {
			for _, line := range listed.FindAllStringSubmatch(f.Doc.Text(), -1) {
				names = append(names, line[1])
			}
		}
	}
	for _, name := range keyfunc.FilterNames() {
		if !slices.Contains(names, name) {
			t.Errorf("the filter %[1]q is not listed in the doc comment of Parse, in template.go: add the line\n//\t%[1]s   what it does", name)
		}
	}
	for _, name := range names {
		if !slices.Contains(keyfunc.FilterNames(), name) {
			t.Errorf("the doc comment of Parse lists the filter %q, which is not in knownFilters, in filters.go", name)
		}
	}
}

// A middleware asks its key function once with made-up values, to learn what it reads.
func TestEveryFilterTakesTheValuesThatMiddlewareMakesUp(t *testing.T) {
	for _, name := range keyfunc.FilterNames() {
		sample := door.Sample{Params: true}
		if err := sample.Ask(keyfunc.MustParse("{param.a|" + name + "}")); err != nil {
			t.Errorf("the filter %q refuses the value in internal/door/sample.go (made), which must suit all filters: %v", name, err)
		}
	}
}

// Functions such as strings.ToLower make U+FFFD of every byte that is not UTF-8, and so one value of many.
func TestFiltersKeepValuesApartThatAreNotUTF8(t *testing.T) {
	for _, name := range keyfunc.FilterNames() {
		f := keyfunc.MustParse("{param.v|" + name + "}")
		one, err := f(call{param: texts("v", "a\xff")})
		other, otherErr := f(call{param: texts("v", "a\xfe")})
		if err == nil && otherErr == nil && one == other {
			t.Errorf("the filter %q makes %q of two values that are not UTF-8; the filter lower shows how to keep them apart", name, one)
		}
	}
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

func TestIdempotencyFilterTakesQuotesAway(t *testing.T) {
	long := strings.Repeat("~", 255)
	for _, tc := range []struct{ value, want string }{
		{`abc`, `abc`},
		{`"abc"`, `abc`},
		{`"a\"b\\c"`, `a"b\c`},
		{`a"b\c`, `a"b\c`},
		{`'abc'`, `'abc'`},
		{`!`, `!`},
		{long, long},
		{`"` + long + `"`, long},
		{`"` + strings.Repeat(`\\`, 255) + `"`, strings.Repeat(`\`, 255)},
	} {
		sum := sha256.Sum256([]byte(tc.want)) // a long key would be shortened
		filtered(t, "{param.v|idempotency|hash}", tc.value, hex.EncodeToString(sum[:]))
	}
}

func TestIdempotencyFilterRefusesOtherText(t *testing.T) {
	for _, v := range []string{
		`"`, `""`, `"abc`, `"abc" `, ` "abc"`, `"abc"d`, `"abc";v=1`, `"a\b"`, `"abc\"`, `"\"abc\""`, `"\""`, `"a b"`, "a b", "a\tb", "a\n", "\x7f", "ä", "\xff",
		strings.Repeat("a", 256), `"` + strings.Repeat("a", 256) + `"`,
	} {
		t.Run(v, func(t *testing.T) {
			wantErr(t, keyfunc.MustParse("{param.v|idempotency}"), call{param: texts("v", v)}, keyfunc.ErrInvalidValue)
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

// Handlers compare by strings.ToLower, by strings.ToUpper or by strings.EqualFold, and some letters are one to
// only one of these: ſ, ς, ı and the Kelvin sign are S, Σ, I and K in upper case.
func TestLowerFilterFoldsWhatAnyHandlerFolds(t *testing.T) {
	filter := keyfunc.MustParse("{param.v|lower}")
	lower := func(r rune) string {
		key, err := filter(call{param: texts("v", string(r))})
		if err != nil {
			t.Fatalf("%U: %v", r, err)
		}
		return key
	}
	for r := 'A'; r <= unicode.MaxRune; r++ {
		for _, other := range []rune{unicode.ToLower(r), unicode.ToUpper(r), unicode.SimpleFold(r)} {
			if other != r && lower(r) != lower(other) {
				t.Errorf("%c and %c (%[1]U, %[2]U) are %q and %q", r, other, lower(r), lower(other))
			}
		}
	}
}

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
	sum = sha256.Sum256([]byte("49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1")) // of "ann"
	filtered(t, "{param.v|lower|hash|hash}", "ANN", hex.EncodeToString(sum[:]))
	filtered(t, "{param.v|int|int}", "+07", "7")
}

// A handler that reads an int sees 0 in both, one that reads a string or a
// pointer does not.
func TestMissingIsZeroToTheIntFilter(t *testing.T) {
	sum := sha256.Sum256([]byte("0"))
	for _, r := range []call{{}, {fields: texts("shelf", "")}, {fields: texts("shelf", "0")}, {fields: texts("shelf", "-0")}} {
		wantKey(t, keyfunc.MustParse("p:{body.shelf?|int}"), r, "p:0")
		wantKey(t, keyfunc.MustParse("{body.shelf?|int}"), r, "0")
		wantKey(t, keyfunc.MustParse("p:{body.shelf?|lower|int|hash}"), r, "p:"+hex.EncodeToString(sum[:]))
	}
	wantKey(t, keyfunc.MustParse("p:{body.shelf?}"), call{}, "p:")
	wantErr(t, keyfunc.MustParse("{body.shelf|int}"), call{}, keyfunc.ErrMissing)
}

func TestEveryFilterIsInTheDocumentOfKeys(t *testing.T) {
	page, err := os.ReadFile("../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range keyfunc.FilterNames() {
		if !regexp.MustCompile(`\|` + name + `\b`).Match(page) {
			t.Errorf("docs/keys.md does not name the filter |%s", name)
		}
	}
}
