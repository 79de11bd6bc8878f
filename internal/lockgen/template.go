package lockgen

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/lockmw/kit/keyfunc"
)

// A key is one key of a directive: literal text and placeholders in braces.
type key struct {
	source string // as it is written
	holes  []hole
}

// A hole is a placeholder.
type hole struct {
	start, end int // of the placeholder in the source, the braces included
	path       path
	plain      string // "method" or "params", instead of a path
	optional   bool
	fallback   string // of an optional one, with its "=" in front; empty: none
	filters    []string
	at         int // where the path begins in the source
}

// method and params are the placeholders that are no paths.
const (
	plainMethod = "method"
	plainParams = "params"
)

// parseKey reads a key. It finds the placeholders and reads what they name; keyfunc,
// which will fill them in, checks the rest of the syntax. isPackage reports whether a name
// is that of an imported package.
func parseKey(source string, isPackage func(name string) bool) (*key, *slip) {
	k := &key{source: source}
	for pos := 0; pos < len(source); {
		rest := source[pos:]
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			pos += 2
		case rest[0] == '}':
			return nil, slipAt(pos, "'}' without '{'; write }} for a brace in the text")
		case rest[0] == '{':
			h, err := parseHole(source, pos, isPackage)
			if err != nil {
				return nil, err
			}
			k.holes = append(k.holes, h)
			pos = h.end
		default:
			pos++
		}
	}
	if err := k.foreignSyntax(); err != nil {
		return nil, err
	}
	return k, k.checkSyntax()
}

// parseHole reads the placeholder that opens at start.
func parseHole(source string, start int, isPackage func(name string) bool) (hole, *slip) {
	h := hole{start: start, at: start + len("{")}
	inside, _, closed := strings.Cut(source[h.at:], "}")
	switch i := strings.IndexByte(inside, '{'); {
	case i >= 0:
		return h, slipAt(h.at+i, "'{' inside a placeholder")
	case !closed:
		return h, slipAt(start, "'{' is never closed; write {{ for a brace in the text")
	}
	h.end = h.at + len(inside) + len("}")
	if opening := strings.TrimSuffix(source[:start], "$"); opening != source[:start] || lonelyHash.MatchString(opening) {
		return h, slipAt(start-1, "'%s{' is not how a placeholder begins: write {%s}", source[start-1:start], strings.TrimLeft(inside, "#$. "))
	}
	subject, filters, filtered := strings.Cut(inside, "|")
	if filtered {
		h.filters = strings.Split(filters, "|")
	}
	whole := subject
	subject, h.fallback, h.optional = strings.Cut(subject, "?")
	if h.fallback != "" && h.fallback[0] != '=' {
		return h, slipAt(h.at+strings.IndexByte(whole, '?'), "'?' must stand at the end of the name, or a default behind it, as in {id?=0}")
	}
	if subject == plainMethod || subject == plainParams {
		h.plain = subject
		if h.optional {
			return h, slipAt(h.at, "%s cannot be optional", subject)
		}
		return h, nil
	}
	var err *slip
	if h.path, err = parsePath(subject, isPackage); err != nil {
		err.at += h.at
		return h, err
	}
	if h.path.each && h.optional {
		return h, slipAt(h.at, "a list cannot be optional: a call without elements has no key")
	}
	return h, nil
}

// lonelyHash is a '#' in front of a brace that nothing stands before: there it may be
// meant as text, as in "order#{id}".
var lonelyHash = regexp.MustCompile(`(?:^|[^\pL\pN_}])#$`)

// foreignText is how other systems write a placeholder, where that is literal text here.
var foreignText = regexp.MustCompile(`#([A-Za-z_][\w.]*)|%(?:\[\d+\])?(?P<verb>[sdvq])(?:$|[^0-9A-Za-z])|\$([A-Za-z_][\w.]*)|<([A-Za-z_][\w.]*)>|(?:^|[^0-9A-Za-z}]):(?P<colon>[A-Za-z_][\w.]*)|\{\{ *\.?([A-Za-z_][\w.]*) *\}\}`)

// foreignSyntax returns a slip if a key without placeholders holds what would be one
// elsewhere: it would be a part of every key, and nobody would notice.
func (k *key) foreignSyntax() *slip {
	if len(k.holes) > 0 {
		return nil
	}
	m := foreignText.FindStringSubmatchIndex(k.source)
	if m == nil {
		if i := strings.IndexAny(k.source, "{}"); i >= 0 {
			return slipAt(i, "a key without placeholders has no braces")
		}
		return nil
	}
	start := m[0]
	if colon := 2 * foreignText.SubexpIndex("colon"); m[colon] >= 0 { // what stands before it was matched, too
		start = m[colon] - len(":")
	}
	name, found := "id", strings.TrimSpace(k.source[start:m[1]])
	for i := 1; i <= foreignText.NumSubexp(); i++ {
		if m[2*i] >= 0 && i != foreignText.SubexpIndex("verb") {
			name = k.source[m[2*i]:m[2*i+1]]
		}
	}
	return slipAt(start, "%q is no placeholder here, but text that all keys would share: write {%s}", found, name)
}

// template returns the template that keyfunc fills in, and where in it each placeholder
// starts. names are the parameters that {params} stands for.
func (k *key) template(names []string) (text string, starts []int) {
	var b strings.Builder
	from := 0
	for i := range k.holes {
		h := &k.holes[i]
		b.WriteString(k.source[from:h.start])
		starts = append(starts, b.Len())
		b.WriteString(h.template(names))
		from = h.end
	}
	b.WriteString(k.source[from:])
	return b.String(), starts
}

func (h *hole) template(names []string) string {
	tail := ""
	if h.optional {
		tail = "?" + h.fallback
	}
	for _, f := range h.filters {
		tail += "|" + f
	}
	switch h.plain {
	case plainMethod:
		return "{method" + tail + "}"
	case plainParams:
		each := make([]string, len(names))
		for i, name := range names {
			each[i] = "{value." + name + tail + "}"
		}
		return strings.Join(each, ":")
	}
	return "{value." + h.path.text() + tail + "}"
}

// checkSyntax has keyfunc parse the key, and returns its complaint.
func (k *key) checkSyntax() *slip {
	if len(k.holes) == 0 {
		return nil // a constant; whether that may be, depends on the function
	}
	var wrong *keyfunc.SyntaxError
	params := []string{plainParams}
	text, starts := k.template(params)
	if _, err := keyfunc.Parse(text); !errors.As(err, &wrong) {
		return nil
	}
	// The column is that of the text which keyfunc was given. Literal text is as in the
	// source, only further on, and filters are as far from their placeholder's end.
	at := byteAt(text, wrong.Column)
	further := 0
	for i := range k.holes {
		h := &k.holes[i]
		if at < starts[i] {
			break
		}
		end := starts[i] + len(h.template(params))
		if at < end {
			return slipAt(max(h.end-(end-at), h.start), "%s", wrong.Reason)
		}
		further = end - h.end
	}
	return slipAt(min(max(at-further, 0), len(k.source)), "%s", wrong.Reason)
}

// byteAt returns the position of a column, counted in runes from 1.
func byteAt(text string, column int) (at int) {
	for range column - 1 {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}

// quoteList writes names for an error: it has a, b, c.
func quoteList(names []string) string {
	const most = 8
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
