package keyfunc

import (
	"fmt"
	"slices"
	"strings"
)

// Params returns a Func whose key is made of the route parameters of these names,
// in the order given, escaped and joined with ':'. Without names it takes all
// parameters of the route, in the order of the route.
//
// Params reads the route from [Request.Route]. It knows these spellings:
//
//   - Gin and Echo: ":id", "*path", and Echo's "*", which is a parameter of that
//     name;
//   - net/http: "{id}", "{path...}";
//   - chi: "{id:[0-9]+}", and "*" at the end, which is a parameter of that name.
//
// In a pattern that contains '{', a ':' is plain text. So is a '*', unless it is
// the last character and no method stands in front, as in chi. Gin shows an escaped
// colon as a plain one, so name the parameters of such a route.
//
// A [ParamRequest] names the parameters itself, in an order of its own.
//
// The key contains only the values, not their names or the route. Join it with
// [Route] if several routes share the Func and must not exclude each other.
//
// The errors are [ErrMissing] for a parameter that is missing or empty, and
// [ErrInvalidValue] for a value over 8 KiB. The error is [ErrMisuse] for a
// parameter that the route does not have, for a route without parameters, and where
// no route is known. Params panics if a name is empty.
func Params(names ...string) Func {
	names = slices.Clone(names)
	if i := slices.Index(names, ""); i >= 0 {
		panic(fmt.Sprintf("keyfunc: Params: name %d is empty: no request has one, all would be refused", i+1))
	}
	return func(r Request) (string, error) {
		var buf [bufferSize]byte
		key, err := appendParams(buf[:0], r, names, nil, none)
		if err != nil {
			return "", err
		}
		return finish(key), nil
	}
}

// appendParams appends the parameters, each filtered and escaped, with the
// separator between them. Without names it appends all of the route.
func appendParams(dst []byte, r Request, names []string, filters []filter, stop rune) ([]byte, error) {
	if len(names) == 0 {
		return appendRouteParams(dst, r, filters, stop)
	}
	return appendNamedParams(dst, r, names, filters, stop)
}

func appendNamedParams(dst []byte, r Request, names []string, filters []filter, stop rune) ([]byte, error) {
	for i, name := range names {
		if i > 0 {
			dst = append(dst, separator)
		}
		var err error
		if dst, err = appendParam(dst, r, name, filters, stop); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// appendRouteParams reads the route again for each request. That allocates
// nothing and is cheaper than it looks, and a cache would have to be bounded.
func appendRouteParams(dst []byte, r Request, filters []filter, stop rune) ([]byte, error) {
	if own, ok := As[ParamRequest](r); ok {
		if names, ok := own.ParamNames(); ok {
			if len(names) == 0 {
				return nil, noParams(r)
			}
			return appendNamedParams(dst, r, names, filters, stop)
		}
	}
	route := r.Route()
	if route == "" {
		return nil, noRoute(string(sourceParams))
	}
	next := nextParam(route)
	name, rest, ok := next(route)
	if !ok {
		return nil, noParams(r)
	}
	for {
		var err error
		if dst, err = appendParam(dst, r, name, filters, stop); err != nil {
			return nil, err
		}
		if name, rest, ok = next(rest); !ok {
			return dst, nil
		}
		dst = append(dst, separator)
	}
}

func appendParam(dst []byte, r Request, name string, filters []filter, stop rune) ([]byte, error) {
	v := value{source: sourceParam, name: name, filters: filters}
	s, err := v.text(r)
	if err != nil {
		return nil, err
	}
	return appendEscaped(dst, s, separator, stop), nil
}

// nextParam returns what finds the first parameter of such a route, and of what
// is left of it after that.
func nextParam(route string) func(route string) (name, rest string, ok bool) {
	switch {
	case strings.Contains(route, "{") && strings.ContainsAny(route, " \t"): // behind a method
		return nextBraceParam
	case strings.Contains(route, "{"):
		return nextBraceOrStar
	}
	return nextColonParam
}

// nextColonParam finds the first parameter of a Gin or Echo route. It begins
// at a ':' or '*', anywhere in a segment, and ends with the segment.
func nextColonParam(route string) (name, rest string, ok bool) {
	for i := 0; i < len(route); i++ {
		switch route[i] {
		case '\\':
			i++ // Echo's "\:" is a literal colon
		case ':', '*':
			name, rest = route[i+1:], ""
			if end := strings.IndexByte(name, '/'); end >= 0 {
				name, rest = name[:end], name[end:]
			}
			if name == "" {
				name = route[i : i+1] // Echo's "*"
			}
			return name, rest, true
		}
	}
	return "", "", false
}

// nextBraceParam finds the first parameter of a net/http or chi pattern. A method
// and a host in front hold no braces. A regular expression of chi may hold some,
// in pairs.
func nextBraceParam(pattern string) (name, rest string, ok bool) {
	start := strings.IndexByte(pattern, '{')
	if start < 0 {
		return "", "", false
	}
	depth, end := 0, start
	for ; end < len(pattern); end++ {
		switch pattern[end] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if end == len(pattern) {
		return "", "", false
	}
	name, _, _ = strings.Cut(pattern[start+1:end], ":") // chi's regular expression
	if name == "$" {
		return "", "", false // "{$}" only marks the end
	}
	return strings.TrimSuffix(name, "..."), pattern[end+1:], true
}

// nextBraceOrStar finds the first parameter of a chi pattern, which may end with
// a '*'.
func nextBraceOrStar(pattern string) (name, rest string, ok bool) {
	if name, rest, ok = nextBraceParam(pattern); !ok && strings.HasSuffix(pattern, "*") {
		return "*", "", true
	}
	return name, rest, ok
}
