package keyfunc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A filter brings all spellings that a handler takes as equal to one. What every filter must do; the tests of
// filters_test.go and FuzzFilters say so if one does not:
//
//   - It makes no empty value of one that is not.
//   - Its own result it leaves as it is, unless it makes a digest, as hash does.
//   - Values that are not UTF-8 stay apart, which strings.ToLower and its like do not do.
//   - It takes the value that middlewares make up to learn what a template reads: 32 zeros, which are a number,
//     and a UUID without hyphens (internal/door/sample.go).
type filter struct {
	name string // as it stands in a template, behind '|'
	// wants says what apply accepts, for the error: "is not …". Empty if that is everything.
	wants string
	// gives is one of the values that apply makes, if another filter may refuse all of
	// them. Parse tries it, to find filters that contradict each other.
	gives string
	// digest says that apply's results tell nothing of the value.
	digest bool
	// missing is what an optional value becomes that is missing or empty.
	missing string
	// apply returns the changed value, which is never empty, and false if
	// it is not what the filter wants. The value given is never empty.
	apply func(string) (string, bool)
}

// knownFilters are all filters of templates, in the order of their names. Parse, its errors, the tests,
// cmd/lockgen and the middlewares ask this table. Besides its entry a new one needs an example in filters_test.go,
// which comes first, a line in the doc comment of Parse, and its name in docs/keys.md: the tests ask for these.
var knownFilters = []filter{
	{name: "hash", digest: true, apply: func(s string) (string, bool) { return hexSHA256(s), true }},
	{name: "idempotency", wants: "an idempotency key, which is 1 to 255 visible ASCII characters, with quotes around them or without", apply: idempotencyKey},
	// A handler that reads a missing value into an integer sees 0.
	{name: "int", wants: "an integer", gives: "7", missing: "0", apply: canonicalInt},
	{name: "lower", apply: func(s string) (string, bool) { return lower(s), true }},
	{name: "trim", apply: func(s string) (string, bool) { return trim(s), true }},
	{name: "uuid", wants: "a UUID", gives: "0f8fad5b-d9cb-469f-a165-70867728950e", apply: canonicalUUID},
}

// contradicts returns why f makes no sense behind the source and the filters of v. What
// is merely needless, as |int|int or |uuid|lower, is none of its business.
//
// Behind a digest |int and |uuid refuse everything, and |lower does what nobody wants
// silently: it leaves "Ann" and "ann" two keys.
func (v *value) contradicts(f filter) string {
	if f.wants != "" && (v.source == sourceMethod || v.source == sourceRoute) {
		return fmt.Sprintf("no request's %s is %s", v.source, f.wants)
	}
	for _, before := range v.filters {
		if before.digest && !f.digest {
			return fmt.Sprintf("behind |%[1]s there is a digest and no longer the value; write |%[2]s|%[1]s", before.name, f.name)
		}
		if before.gives == "" {
			continue
		}
		if _, ok := f.apply(before.gives); !ok {
			return fmt.Sprintf("|%s takes %s and |%s %s; write the one that the handler reads",
				before.name, before.wants, f.name, f.wants)
		}
	}
	return ""
}

func filterNames() []string {
	names := make([]string, len(knownFilters))
	for i, f := range knownFilters {
		names[i] = f.name
	}
	return names
}

// hexSHA256 returns the SHA-256 of s in hexadecimal digits.
func hexSHA256(s string) string {
	return hexOf(sha256.Sum256([]byte(s)))
}

func hexOf(sum [sha256.Size]byte) string {
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

// trim is strings.TrimSpace, except that it leaves one blank of a value that is nothing but
// white space: that is no missing value.
func trim(s string) string {
	if trimmed := strings.TrimSpace(s); trimmed != "" {
		return trimmed
	}
	return " "
}

// lower is strings.ToLower, with two exceptions. Letters that are one in upper case are one
// here, such as s and ſ, σ and ς, i and ı: to handlers that compare by strings.ToUpper or
// strings.EqualFold they are. And it leaves bytes alone that are not UTF-8. ToLower replaces
// each by U+FFFD, which makes different values equal.
func lower(s string) string {
	if utf8.ValidString(s) {
		return strings.Map(lowerRune, s)
	}
	out := make([]byte, 0, len(s))
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			out = append(out, s[0])
		} else {
			out = utf8.AppendRune(out, lowerRune(r))
		}
		s = s[size:]
	}
	return string(out)
}

func lowerRune(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// canonicalInt returns a decimal integer of any length without '+', leading
// zeros and negative zero.
func canonicalInt(s string) (string, bool) {
	digits := s
	if s[0] == '+' || s[0] == '-' {
		digits = s[1:]
	}
	if digits == "" {
		return "", false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return "", false
		}
	}
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0", true
	case s[0] == '-':
		return "-" + digits, true
	}
	return digits, true
}

// canonicalUUID returns a UUID as lower-case digits with hyphens. Like the
// parsers that handlers use it also takes upper case, "urn:uuid:" in front,
// braces around, and 32 digits without hyphens. It asks for no version.
func canonicalUUID(s string) (string, bool) {
	const urn, form = "urn:uuid:", "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	switch len(s) {
	case len(urn) + len(form):
		if !strings.EqualFold(s[:len(urn)], urn) {
			return "", false
		}
		s = s[len(urn):]
	case len("{") + len(form) + len("}"):
		if s[0] != '{' || s[len(s)-1] != '}' {
			return "", false
		}
		s = s[1 : len(s)-1]
	case len(form):
	case len(form) - strings.Count(form, "-"):
		s = s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
	default:
		return "", false
	}
	for i := range len(form) {
		if form[i] == '-' && s[i] != '-' || form[i] == 'x' && !isHex(s[i]) {
			return "", false
		}
	}
	return strings.ToLower(s), true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// longestIdempotencyKey is how many bytes an idempotency key may have.
const longestIdempotencyKey = 255

// idempotencyKey returns an Idempotency-Key without the quotes of a structured-field string (RFC 9651) and its
// escapes, or as it is where it has no quotes, which clients leave out. One that begins with a quote when it is
// unquoted is refused: nobody could tell it from one that has its quotes still.
func idempotencyKey(s string) (string, bool) {
	if s[0] == '"' {
		var ok bool
		if s, ok = unquoted(s); !ok || s == "" || s[0] == '"' {
			return "", false
		}
	}
	if len(s) > longestIdempotencyKey {
		return "", false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return "", false
		}
	}
	return s, true
}

// unquoted returns what is between the quotes of a structured-field string, which begins with one. Only
// a quote and a backslash may be escaped there.
func unquoted(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return string(out), i == len(s)-1
		case c != '\\':
			out = append(out, c)
		case i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			out = append(out, s[i])
		default:
			return "", false
		}
	}
	return "", false // the quote at the end is missing
}
