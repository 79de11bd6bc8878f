package keyfunc

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// badName returns why this name, which is not empty, cannot be meant, and where in it the
// mistake is. HTTP allows no such header or cookie, or a name in the path of a field is empty,
// which is a slip, though JSON has such fields. The reason is empty otherwise: query values,
// fields of a form and those of a JSON body may have any name, spaces and all.
func badName(s source, name string) (at int, reason string) {
	switch s {
	case sourceHeader:
		// gRPC has pseudo-headers, which begin with a colon: ":authority".
		rest := strings.TrimPrefix(name, ":")
		if rest == "" {
			return 0, "no header has this name; write one such as X-User"
		}
		if at := notToken(rest); at >= 0 {
			advice := "the name alone, such as X-User"
			if words := strings.Join(strings.Fields(name), "-"); words != "" && notToken(words) < 0 {
				advice = words
			}
			return len(name) - len(rest) + at, noneHas(s, rest[at:]) + advice
		}
	case sourceCookie:
		if at := notToken(name); at >= 0 {
			return at, noneHas(s, name[at:]) + "the name alone, such as session"
		}
	case sourceBody:
		if at := emptyPart(name); at >= 0 {
			advice := "names with dots between, such as customer.id"
			if parts := strings.FieldsFunc(name, func(r rune) bool { return r == '.' }); len(parts) > 0 {
				advice = strings.Join(parts, ".")
			}
			return at, "a name is empty in the path of the field; write " + advice
		}
	default:
	}
	return 0, ""
}

func noneHas(s source, at string) string {
	r, _ := utf8.DecodeRuneInString(at)
	return fmt.Sprintf("no %s has %q in its name; write ", s, r)
}

// notToken returns where the first byte stands that HTTP does not allow in the name of a
// header or a cookie, or -1.
func notToken(name string) int {
	for i := range len(name) {
		c := name[i]
		letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return i
		}
	}
	return -1
}

// emptyPart returns where a name is empty in a path of names with dots between, or -1.
func emptyPart(path string) int {
	start := 0
	for part := range strings.SplitSeq(path, ".") {
		if part == "" {
			return start
		}
		start += len(part) + len(".")
	}
	return -1
}
