package httpdoor

import (
	"net/url"
	"strings"

	"github.com/lockmw/kit/internal/door"
)

// Why no key may be made from a route parameter.
var (
	// ErrTwoParams: routers may return the first or the last of them.
	ErrTwoParams = door.NewFault("is the name of two parameters of the route, which differ", "")

	errBrokenEscape = door.NewFault("has an escape that cannot be decoded", "")
	errEscaped      = door.NewFault("is escaped more than once", ", and handlers differ in how often they decode it")
	errUnclean      = door.NewFault("is a path with an empty element, \".\" or \"..\"", ", and to handlers that join it to a folder it is another path as well")
)

// RouteParam returns the value of the route parameter called name, of which sent is what handlers
// get; escaped tells that a handler must decode it. Where a router is known by nothing else, the URL shows it:
// chi, gorilla/mux with UseEncodedPath and Gin with UseRawPath leave the decoding of some paths or of all to handlers.
// The value is decoded then. Whether a handler does the same or not, no two requests in which it sees one thing
// give two values. It is false for an empty one. A view
// calls it where it returns a parameter. Enter refuses the request, and names the parameter, where a
// client could have named what sent names in another way:
//
//   - The value would be another one if it were decoded again, as some handlers do.
//   - As a path it has an element that is empty, "." or "..": "a//b", "x/../a/b" and
//     "a/b/" are the file a/b to a handler that joins them to a folder. One slash in
//     front is as some routers give what a wildcard takes; it must be the one in the
//     URL behind which the value begins.
func (v *Visit) RouteParam(name, sent string, escaped bool) (string, bool) {
	value := sent
	if escaped || v.isAsSent(sent) {
		var err error
		if value, err = url.PathUnescape(sent); err != nil {
			v.Refuse(door.Unread("param", name, errBrokenEscape))
		}
	}
	if strings.Contains(value, "%") {
		// An error means that the '%' was sent as "%25", and that nobody can decode it again.
		if _, err := url.PathUnescape(value); err == nil {
			v.Refuse(door.Unread("param", name, errEscaped))
		}
	}
	if !isCleanPath(value) || value != "" && value[0] == '/' && strings.Contains(v.outer.URL.Path, "/"+value) {
		v.Refuse(door.Unread("param", name, errUnclean))
	}
	return value, value != ""
}

// isAsSent reports whether a parameter is escaped, and is so because nobody has decoded it: it stands in
// the URL as that was sent, and not in the decoded path.
func (v *Visit) isAsSent(parameter string) bool {
	if !strings.Contains(parameter, "%") {
		return false
	}
	_, err := url.PathUnescape(parameter)
	u := v.outer.URL
	return err == nil && strings.Contains(u.EscapedPath(), parameter) && !strings.Contains(u.Path, parameter)
}

// OddInteger has the Locker's log say, once for each route and placeholder, that the key is
// made from an integer that has several spellings. Keyfunc calls it.
func (v *Visit) OddInteger(source, name string) {
	if v.door == nil || v.door.locker == nil || v.view == nil {
		return
	}
	door.OddInteger(v.Context(), v.door.locker, *v.door.policy(v.outer.Method), v.view.Route(), source, name)
}

// isCleanPath reports whether a path, behind one slash that it may begin with, has no
// element that is empty, "." or "..". The slash alone is clean.
func isCleanPath(s string) bool {
	more := s != "" && s != "/"
	for rest := strings.TrimPrefix(s, "/"); more; {
		var element string
		element, rest, more = strings.Cut(rest, "/")
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	return true
}
