package settings

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockmw/kit/internal/store"
)

// A Pattern says for which policies a setting is, in service/name. Either part may end with a *, which stands for whatever follows.
type Pattern struct{ Service, Name string }

const (
	mostService = 64  // bytes
	mostName    = 256 // bytes, as a policy's Name
)

// ParsePattern reads service/name. The first slash parts them.
func ParsePattern(text string) (Pattern, error) {
	service, name, ok := strings.Cut(text, "/")
	switch {
	case !ok:
		return Pattern{}, fmt.Errorf("%q is not service/name, such as shop/pay, shop/* or */pay", text)
	case name == "" || len(name) > mostName || !store.IsPrintable(name):
		return Pattern{}, fmt.Errorf("%q: the name behind the slash is 1 to %d bytes of printable text", text, mostName)
	}
	if err := CheckService(strings.TrimSuffix(service, "*")); err != nil && service != "*" {
		return Pattern{}, fmt.Errorf("%q: %w", text, err)
	}
	for _, part := range []string{service, name} {
		if at := strings.IndexByte(part, '*'); at >= 0 && at < len(part)-1 {
			return Pattern{}, fmt.Errorf("%q: a * stands at the end of the service or of the name, for whatever follows", text)
		}
	}
	return Pattern{service, name}, nil
}

// CheckService returns an error unless name may be that of a service: 1 to 64 bytes of printable text without blanks, slashes and *.
func CheckService(name string) error {
	if name == "" || len(name) > mostService || !store.IsPrintable(name) || strings.ContainsAny(name, "/* ") {
		return fmt.Errorf("%q is not the name of a service: 1 to %d bytes of printable text, without blanks, slashes and *", name, mostService)
	}
	return nil
}

// String is the pattern as it is written.
func (p Pattern) String() string { return p.Service + "/" + p.Name }

// Serves reports whether the pattern is for policies of that service.
func (p Pattern) Serves(service string) bool { return matches(p.Service, service) }

// Matches reports whether the pattern is for policies of that service and name.
func (p Pattern) Matches(service, name string) bool {
	return p.Serves(service) && matches(p.Name, name)
}

func matches(pattern, text string) bool {
	begin, open := strings.CutSuffix(pattern, "*")
	return text == pattern || open && strings.HasPrefix(text, begin)
}

// Compare is negative if a is more specific than b: first by its service and then by its name, of which one
// without * is the most specific, and of two with one the longer. Two patterns that match the same policy are never equal.
func Compare(a, b Pattern) int {
	return cmp.Or(compare(a.Service, b.Service), compare(a.Name, b.Name))
}

func compare(a, b string) int {
	aOpen, bOpen := strings.HasSuffix(a, "*"), strings.HasSuffix(b, "*")
	switch {
	case aOpen && !bOpen:
		return 1
	case !aOpen && bOpen:
		return -1
	}
	return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}
