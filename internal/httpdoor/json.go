package httpdoor

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep a body may nest, in objects and arrays.
const maxDepth = 32

// What is wrong with a body. The texts say nothing of what is in it.
var (
	errJSON      = errors.New("the body is not valid JSON")
	errDepth     = errors.New("the body nests too deep")
	errNotObject = errors.New("the field is looked for in something that is no JSON object")
	errNotScalar = errors.New("the field is an object or array")
	errCase      = errors.New("the field's name is written in another case")
	errTwice     = errors.New("the field is there more than once, and what it is in the end depends on the reader")
)

// checkJSON returns nil if data is one JSON value, as json.Unmarshal wants it,
// and does not nest too deep.
func checkJSON(data []byte) error {
	if deeper(data, maxDepth) {
		return errDepth
	}
	if !json.Valid(data) {
		return errJSON
	}
	return nil
}

// deeper reports whether data, which need not be JSON, nests deeper than max.
func deeper(data []byte, max int) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > max {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			i = stringEnd(data, i) - 1
		}
	}
	return false
}

// field returns the text of the field at path in data, which checkJSON has
// passed. Path is names with dots between. Two bodies that a handler reads
// alike give the same text; where handlers would differ, there is an error:
//
//   - Of equal names the last counts, as encoding/json has it. If the last has
//     nothing there and an earlier one may have, a struct keeps the earlier
//     value and a map does not: an error.
//   - A name that differs only in case, see sameButCase, is the field to a
//     struct and another one to a map: an error, whether the right one is there
//     as well or not.
//   - null is no value, as if the field were missing.
//   - A string is its decoded text, true and false are themselves, a number is
//     what number makes of it. So 1 and "1" are the same: handlers that take
//     both take them as equal.
//   - An object or array is an error.
func field(data []byte, path string) (text string, ok bool, err error) {
	name, rest, deep := strings.Cut(path, ".")
	value, times, err := member(data, name)
	switch {
	case err != nil:
		return "", false, err
	case times == 0:
		return "", false, nil
	case deep:
		text, ok, err = field(value, rest)
	default:
		text, ok, err = scalar(value)
	}
	if err == nil && !ok && times > 1 {
		err = errTwice
	}
	return text, ok, err
}

// member returns the last value under name in an object, and how many there
// are. In null there is none.
func member(data []byte, name string) (value []byte, times int, err error) {
	i := skipSpace(data, 0)
	switch data[i] {
	case 'n':
		return nil, 0, nil
	case '{':
	default:
		return nil, 0, errNotObject
	}
	for i = skipSpace(data, i+1); data[i] != '}'; {
		nameEnd := stringEnd(data, i)
		same, alike := isName(data[i:nameEnd], name)
		if alike && !same {
			return nil, 0, errCase
		}
		i = skipSpace(data, nameEnd)
		i = skipSpace(data, i+1) // the colon
		end := valueEnd(data, i)
		if same {
			value = data[i:end]
			times++
		}
		if i = skipSpace(data, end); data[i] == ',' {
			i = skipSpace(data, i+1)
		}
	}
	return value, times, nil
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
