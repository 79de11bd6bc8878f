package lockgen

import (
	"fmt"
	"go/token"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A path is what a placeholder names: a parameter, the receiver or a function of the
// package, and what is taken of that.
//
//	order.Customer.ID    req.GetOrderId()    tenant(ctx, order.ID)    skus...
type path struct {
	root string
	call bool   // root is a function
	args []path // of root
	hops []hop  // behind root
	each bool   // the last hop, or root, is a list of which each element is meant
	at   int    // where it begins, in bytes from the start of the text
}

// A hop is a field, or a method that is called without arguments.
type hop struct {
	name string
	call bool
	at   int
}

// text returns the path as a key names it, without spaces.
func (p *path) text() string {
	var b strings.Builder
	b.WriteString(p.root)
	if p.call {
		args := make([]string, len(p.args))
		for i := range p.args {
			args[i] = p.args[i].text()
		}
		fmt.Fprintf(&b, "(%s)", strings.Join(args, ", "))
	}
	for _, h := range p.hops {
		b.WriteString("." + h.name)
		if h.call {
			b.WriteString("()")
		}
	}
	if p.each {
		b.WriteString("...")
	}
	return b.String()
}

// texts returns the placeholder of a function that takes texts of a list. A call is no
// argument in a key, so a path with one is left open.
func (p *path) texts() string {
	list := strings.TrimSuffix(p.text(), "...")
	if strings.Contains(list, "(") {
		list = "…"
	}
	return "texts(" + list + ")..."
}

// A slip is a mistake in a text, and where it is: bytes from the start of the text.
type slip struct {
	at     int
	reason string
}

func slipAt(at int, format string, args ...any) *slip {
	return &slip{at, fmt.Sprintf(format, args...)}
}

// pathParser reads one path from text.
type pathParser struct {
	text      string
	pos       int
	isPackage func(name string) bool // as a file imports it
}

// parsePath reads the path that text is. isPackage reports whether a name is that of an
// imported package.
func parsePath(text string, isPackage func(name string) bool) (path, *slip) {
	if trimmed := strings.TrimSpace(text); trimmed != text || text == "" {
		return path{}, slipAt(0, "a placeholder begins with the name of a parameter, and has no space around it: {id}")
	}
	p := &pathParser{text: text, isPackage: isPackage}
	parsed, err := p.path(true)
	if err == nil && p.pos < len(text) {
		err = p.unexpected()
	}
	return parsed, err
}

// path reads a path. Those in the arguments of a function hold no calls and no lists.
func (p *pathParser) path(outer bool) (parsed path, err *slip) {
	parsed.at = p.pos
	if parsed.root, err = p.name("the name of a parameter"); err != nil {
		return parsed, err
	}
	if p.rest(".") && !p.rest("...") && p.isPackage(parsed.root) {
		return parsed, slipAt(parsed.at, "%s is a package: only functions of this package are called in keys", parsed.root)
	}
	if p.rest("(") {
		if !outer {
			return parsed, slipAt(p.pos, "a call inside of a call: write a function of the package that does both")
		}
		parsed.call = true
		if parsed.args, err = p.arguments(); err != nil {
			return parsed, err
		}
	}
	for p.rest(".") {
		if p.rest("...") {
			if !outer {
				return parsed, slipAt(p.pos, "'...' inside of a call")
			}
			list := parsed
			parsed.each = true
			p.pos += len("...")
			if p.pos < len(p.text) {
				err = slipAt(p.pos, "'...' ends a placeholder; write a function of the package that takes what is meant of each element, as in {%s}", list.texts())
			}
			return parsed, err
		}
		p.pos++
		h := hop{at: p.pos}
		if h.name, err = p.name("a field or method"); err != nil {
			return parsed, err
		}
		if p.rest("(") {
			switch {
			case !outer:
				return parsed, slipAt(h.at, "a call inside of a call: write a function of the package that does both")
			case !p.rest("()"):
				return parsed, slipAt(p.pos, "a method in a key takes no arguments; write a function of the package that calls %s", h.name)
			}
			h.call = true
			p.pos += len("()")
		}
		parsed.hops = append(parsed.hops, h)
	}
	return parsed, nil
}

// arguments reads the arguments of a call and the parentheses around them.
func (p *pathParser) arguments() (args []path, err *slip) {
	open := p.pos
	p.pos++
	p.space()
	if p.rest(")") {
		p.pos++
		return nil, nil
	}
	for {
		arg, err := p.path(false)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
		p.space()
		switch {
		case p.rest(")"):
			p.pos++
			return args, nil
		case p.pos == len(p.text):
			return nil, slipAt(open, "'(' is never closed")
		case !p.rest(","):
			return nil, p.unexpected()
		}
		p.pos++
		p.space()
	}
}

// name reads an identifier.
func (p *pathParser) name(what string) (string, *slip) {
	start := p.pos
	for p.pos < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.pos:])
		if r != '_' && !unicode.IsLetter(r) && (p.pos == start || !unicode.IsDigit(r)) {
			break
		}
		p.pos += size
	}
	name := p.text[start:p.pos]
	switch {
	case name == "" && p.pos == len(p.text):
		return "", slipAt(start, "%s is missing", what)
	case name == "":
		return "", p.unexpected()
	case token.IsKeyword(name):
		return "", slipAt(start, "%q is a keyword of Go", name)
	case name == "_":
		return "", slipAt(start, "'_' has no value: give the parameter a name")
	}
	return name, nil
}

func (p *pathParser) rest(prefix string) bool { return strings.HasPrefix(p.text[p.pos:], prefix) }

func (p *pathParser) space() {
	for p.rest(" ") || p.rest("\t") {
		p.pos++
	}
}

// unexpected is the slip of a character that no path has here.
func (p *pathParser) unexpected() *slip {
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	const paths = "a placeholder is a parameter, a field or a method of one, or a function of the package: {id}, {order.ID}, {req.GetId()}, {tenant(ctx)}"
	switch {
	case p.pos == len(p.text):
		return slipAt(p.pos, "the placeholder ends too soon; %s", paths)
	case r == '[', r == '*' && strings.HasSuffix(p.text[:p.pos], "."):
		return slipAt(p.pos, "no index in a key: write a function of the package, or {list...} for a key of each element")
	case r == '#' && p.pos == 0:
		return slipAt(p.pos, "'#' is not how a placeholder begins: write {%s}", strings.TrimLeft(p.text, "#"))
	case r == '*' || r == '&':
		return slipAt(p.pos, "'%c' is not needed: a pointer stands for what it points to", r)
	case r == '"' || r == '\'' || r == '`':
		return slipAt(p.pos, "no text inside of a placeholder: put it around the braces")
	}
	return slipAt(p.pos, "%q is not expected; %s", r, paths)
}
