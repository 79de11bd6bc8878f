package keyfunc

import (
	"fmt"
	"unicode/utf8"
)

// Parse returns the Func that a template describes. A template is literal text and
// placeholders in braces:
//
//	order:{param.id}                  a route parameter
//	stock:{query.shop}:{query.sku?}   sku may be missing or empty
//	page:{body.shelf?|int}            shelf may be missing, which is 0
//	stock:{query.shop?=main}          shop may be missing, which is main
//	user:{header.X-User|uuid}         a filter
//	user:{body.customer.id|int|hash}  filters one after another
//	cart:{cookie.session}:{form.sku}  a cookie; a field of a form in the body
//	{value.tenant}:{method}:{route}   what middleware stored; the call
//	{params}                          all parameters of the route
//
// A placeholder is a source and a name: param, query, header, body, form, cookie or
// value. The name ends at '?', '|' or '}' and may contain dots. {method}, {route} and
// {params} have no name. {method} and {route} are those of the [Request]: unlike
// [Route], {route} has no method put in front. {params} is what [Params] gives without
// names.
//
// '?' says that the value may be missing or empty. After "?=", a default takes its
// place: the text up to '|' or '}', which must not be empty. Filters apply to the
// default too. So it gives the same key as a request that sends this value.
//
// Filters give equal spellings one key, so that a client cannot dodge the lock by
// another spelling. All routes that lock the same thing need the same filters. After
// {params}, filters apply to each parameter.
//
//	lower   lower case, character by character, by the rules of Unicode; ς is σ and ſ is s
//	int     a decimal integer of any length, without '+' and leading zeros;
//	        an optional value that is missing or empty is 0
//	trim    without white space at both ends, by the rules of Unicode; white space alone
//	        becomes one blank
//	uuid    lower case with hyphens; also takes "urn:uuid:", braces, and 32 digits
//	idempotency  an Idempotency-Key without the quotes of a structured-field string;
//	        1 to 255 visible ASCII characters
//	hash    SHA-256 in hexadecimal, for long values; comes last
//
// Without a filter, a missing value and 0 are two keys. That is right for a handler
// that tells them apart, because it reads a string or a pointer. A handler that reads
// an int sees 0 in both cases, so its template must say {body.shelf?|int}. A handler
// may have another default, such as Gin's c.DefaultQuery("shop", "main") or a tag
// "default=1". It then takes a missing value and the default as equal, so its template
// must say {query.shop?=main} or {query.page?=1|int}. A float or a bool should not be
// optional: no filter turns a missing one into its zero value.
//
// A template without a placeholder is an error: it names no value, so all requests
// would take one lock. Use [Const] where that is meant. Text that another system would
// take for a placeholder is an error too, and the error says what to write. "{id}",
// "${", "%s" and "{{param.id}}" are always errors. "#{" is one unless the '#' stands
// after a word or a placeholder. "{{id}}", ":id", "#id", "<id>" and "$id" are text if
// the template has a placeholder as well.
//
// These are errors as well: a space in the name of a header or cookie, an empty name in
// the path of a body field, filters that contradict each other ("|int|uuid",
// "{method|int}"), and any other filter after "|hash".
//
// "{{" and "}}" stand for braces. As no key may contain braces, they become %7B and
// %7D.
//
// Different values never give the same key. In a value, ':' is escaped, and so is the
// character that follows the placeholder in the template: with "{param.a}-{param.b}",
// "1-2" becomes "1%2D2". Where the next placeholder follows directly, or text that
// begins with '%', a brace or a control character, a ':' is put in between. A template
// that is a single placeholder other than {params} gives the key of [Param] and its
// like, in which ':' is not escaped.
//
// An error of Parse is a [*SyntaxError]. The errors of the Func are:
//
//   - [ErrMissing] for a value without '?' that is missing or empty, and for a template
//     without literal text if all its values are;
//   - [ErrInvalidValue] for a value over 8 KiB, for one that is not what a filter
//     wants, and where [Value] says so;
//   - [ErrMisuse] for {route} where no route is known, for a parameter that the route
//     does not have, and for a value of a type that Value does not take;
//   - what [Request.Body], [FormRequest] and [CookieRequest] return, wrapped.
func Parse(template string) (Func, error) {
	t, err := parse(template)
	if err != nil {
		return nil, err
	}
	return t.key, nil
}

// MustParse is [Parse] for templates that are part of the program. It panics
// with the [*SyntaxError] if the template cannot be parsed.
func MustParse(template string) Func {
	f, err := Parse(template)
	if err != nil {
		panic(err)
	}
	return f
}

// template is literal text, then holes, each followed by text of its own.
type template struct {
	head  string // escaped
	holes []hole
	// bare is the length of a key to which no value contributed, if there
	// is no literal text either; otherwise -1.
	bare int
}

// hole is a place for a value, and the text between it and the next.
type hole struct {
	value
	// sep and stop are escaped in the value. A reader who knows the template
	// finds the end of a value at the first raw rune that tail begins with.
	sep, stop rune
	tail      string // escaped
}

// key is the template's Func.
func (t *template) key(r Request) (string, error) {
	var buf [bufferSize]byte
	key := append(buf[:0], t.head...)
	for i := range t.holes {
		h := &t.holes[i]
		var err error
		if key, err = h.append(key, r); err != nil {
			return "", err
		}
		key = append(key, h.tail...)
	}
	if len(key) == t.bare {
		return "", fmt.Errorf("%w: all values of the template", ErrMissing)
	}
	return finish(key), nil
}

func (h *hole) append(key []byte, r Request) ([]byte, error) {
	if h.source == sourceParams {
		return appendParams(key, r, nil, h.filters, h.stop)
	}
	s, err := h.text(r)
	if err != nil {
		return nil, err
	}
	return appendEscaped(key, s, h.sep, h.stop), nil
}

// compile builds a template of values and the literal texts around them, of
// which there is one more. It decides where each value ends in the key.
//
// A key can be taken apart again, because in every value that something
// follows, the first rune of what follows is escaped. That rune cannot be
// mistaken for part of an escape, which begins with '%' and is read as three;
// only '%' itself could, so a text that begins with it gets a ':' in front.
// {params} has raw ':' between its values; how many, follows from how many the
// whole key has, since all other raw ':' are text of the template.
func compile(texts []string, values []value) *template {
	t := &template{head: escapedText(texts[0]), bare: -1}
	size, literal := 0, texts[0] != ""
	for i, v := range values {
		h := hole{value: v, sep: separator, stop: none, tail: escapedText(texts[i+1])}
		switch {
		case h.tail != "" && h.tail[0] != '%':
			h.stop, _ = utf8.DecodeRuneInString(h.tail)
		case h.tail != "" || i < len(values)-1:
			h.tail = string(separator) + h.tail
		}
		literal = literal || texts[i+1] != ""
		size += len(h.tail)
		t.holes = append(t.holes, h)
	}
	if !literal {
		t.bare = size
	}
	if !literal && len(t.holes) == 1 {
		// Nothing to tell the value from. So it is the key that Param gives,
		// and as a part of Join it is not escaped twice.
		t.holes[0].sep = none
	}
	return t
}

func escapedText(s string) string {
	return string(appendEscaped(nil, s, none, none))
}
