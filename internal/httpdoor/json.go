package httpdoor

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lockmw/kit/internal/door"
)

// What is wrong with a body. The texts say nothing of what is in it.
var (
	errJSON      = door.NewFault("is to be in a JSON body, and the body is not valid JSON", "")
	errNotObject = door.NewFault("is to be in a JSON object, and something else is there", "")
	errNotScalar = door.NewFault("is an object or array", "")
	errText      = door.NewFault("is no Unicode text", ", and what it is depends on the reader")
	errCase      = door.NewFault("is written in another case", ", which is the same name to some readers")
)

// checkJSON returns nil if data is one JSON value, as json.Unmarshal wants it. It may nest as deep
// as encoding/json reads: a document of lists in lists is no attack, and what is beside the
// field is passed over without recursion.
func checkJSON(data []byte) error {
	if !json.Valid(data) {
		return errJSON
	}
	return nil
}

// field returns the text of the field at path in data, which checkJSON has
// passed. Path is names with dots between. Two bodies that a handler reads
// alike give the same text; where handlers would differ, there is an error:
//
//   - A name may be there more than once, on the way as well, if the field is the
//     same in all of them. Some readers take the first, some the last, and a struct
//     keeps what null or an object without the field does not overwrite.
//   - A name that differs only in case, see sameButCase, is the field to a
//     struct and another one to a map: an error, whether the right one is there
//     as well or not.
//   - null is no value, as if the field were missing.
//   - A string is its decoded text, true and false are themselves, a number is
//     what number makes of it. So 1 and "1" are the same: handlers that take
//     both take them as equal.
//   - An object or array is an error, and so is a text with bytes that are not UTF-8, or
//     with an escaped half of a surrogate pair. Some readers put U+FFFD in the place of
//     these, some leave them as they are, and some take away what follows.
func field(data []byte, path string) (text string, ok bool, err error) {
	name, rest, deep := strings.Cut(path, ".")
	i, err := firstMember(data)
	for times := 0; ; times++ {
		var value []byte
		if err == nil {
			value, i, err = member(data, i, name)
		}
		if err != nil || value == nil {
			break
		}
		var again string
		var found bool
		if deep {
			again, found, err = field(value, rest)
		} else {
			again, found, err = scalar(value)
		}
		if err == nil && times > 0 && (again != text || found != ok) {
			err = door.ErrTwice
		}
		text, ok = again, found
	}
	if err != nil {
		return "", false, err
	}
	return text, ok, nil
}

// firstMember returns where the first member of an object begins. In null there is
// none, and the position is that of its end.
func firstMember(data []byte) (i int, err error) {
	i = skipSpace(data, 0)
	switch data[i] {
	case 'n':
		return len(data), nil
	case '{':
		return skipSpace(data, i+1), nil
	}
	return 0, errNotObject
}

// member returns the first value under name among the members of an object that
// begin at i, and where the next member begins. There is none if it is nil.
func member(data []byte, i int, name string) (value []byte, next int, err error) {
	for i < len(data) && data[i] != '}' {
		nameEnd := stringEnd(data, i)
		same, alike := isName(data[i:nameEnd], name)
		if alike && !same {
			return nil, 0, errCase
		}
		i = skipSpace(data, nameEnd)
		i = skipSpace(data, i+1) // the colon
		start, end := i, valueEnd(data, i)
		if i = skipSpace(data, end); data[i] == ',' {
			i = skipSpace(data, i+1)
		}
		if same {
			return data[start:end], i, nil
		}
	}
	return nil, i, nil
}

// isName reports whether a JSON string is name, and whether it is name but for
// the case.
func isName(quoted []byte, name string) (same, alike bool) {
	raw := quoted[1 : len(quoted)-1]
	if isPlain(raw) {
		if string(raw) == name {
			return true, true
		}
		if isASCII(raw) && isASCII(name) { // without a copy
			return false, bytes.EqualFold(raw, []byte(name))
		}
	}
	text := unquote(quoted)
	return text == name, sameButCase(text, name)
}

// sameButCase reports whether two names are one to any reader that does not
// look at the case. encoding/json folds the case; other JSON packages compare
// names in lower case, in which "İd" is "id".
func sameButCase(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	if isASCII(a) && isASCII(b) {
		return false
	}
	lower, upper := strings.ToLower(a), strings.ToUpper(a)
	return lower == strings.ToLower(b) || upper == strings.ToUpper(b)
}

func isASCII[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// scalar returns the text of a value. For null it is not ok.
func scalar(value []byte) (text string, ok bool, err error) {
	switch value[0] {
	case '{', '[':
		return "", false, errNotScalar
	case 'n':
		return "", false, nil
	case '"':
		if !isText(value) {
			return "", false, errText
		}
		return unquote(value), true, nil
	case 't', 'f':
		return string(value), true, nil
	}
	text, err = number(string(value))
	return text, err == nil, err
}

// unquote returns the text of a JSON string as encoding/json decodes it.
func unquote(quoted []byte) string {
	if raw := quoted[1 : len(quoted)-1]; isPlain(raw) {
		return string(raw)
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is valid
	return s
}

// isText reports whether a JSON string is UTF-8 without halves of surrogate pairs.
func isText(quoted []byte) bool {
	if !utf8.Valid(quoted) {
		return false
	}
	var high rune // the half whose other one has to follow
	for i := 1; i < len(quoted)-1; i++ {
		var unit rune
		if quoted[i] == '\\' {
			if i++; quoted[i] == 'u' {
				hex, _ := strconv.ParseUint(string(quoted[i+1:i+5]), 16, 16)
				unit, i = rune(hex), i+4
			}
		}
		switch {
		case high != 0:
			if utf16.DecodeRune(high, unit) == utf8.RuneError {
				return false
			}
			high = 0
		case utf16.IsSurrogate(unit):
			high = unit
		}
	}
	return high == 0
}

// isPlain reports whether what stands between the quotes is the text itself.
func isPlain(raw []byte) bool {
	return bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw)
}

func skipSpace(data []byte, i int) int {
	for data[i] == ' ' || data[i] == '\t' || data[i] == '\r' || data[i] == '\n' {
		i++
	}
	return i
}

// valueEnd returns where the value that begins at i ends.
func valueEnd(data []byte, i int) int {
	depth := 0
	for ; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of what the value is in
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			end := stringEnd(data, i)
			if depth == 0 {
				return end
			}
			i = end - 1
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// stringEnd returns where the string that begins at i ends, behind its quote.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
