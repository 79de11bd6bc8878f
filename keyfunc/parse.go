package keyfunc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parser reads one template. Positions are byte offsets in it.
type parser struct {
	template string
}

// parse returns the template, or a *SyntaxError.
func parse(text string) (*template, error) {
	p := parser{text}
	if text == "" {
		return nil, p.errorAt(0, "empty template; an empty key would lock all requests against each other")
	}
	literals := []*literal{{}}
	var values []value
	for pos := 0; pos < len(text); {
		rest, last := text[pos:], literals[len(literals)-1]
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			last.add(rest[0], pos)
			pos += 2
		case rest[0] == '}':
			return nil, p.errorAt(pos, "'}' without '{'; write }} for a brace in the text")
		case rest[0] == '{':
			v, size, err := p.placeholder(pos)
			if opening := p.checkOpening(pos, err == nil); opening != nil {
				return nil, opening
			}
			if err != nil {
				return nil, err
			}
			values, literals = append(values, v), append(literals, new(literal))
			pos += size
		default:
			last.add(rest[0], pos)
			pos++
		}
	}
	if err := p.checkLiterals(literals); err != nil {
		return nil, err
	}
	texts := make([]string, len(literals))
	for i, l := range literals {
		texts[i] = l.text.String()
	}
	return compile(texts, values), nil
}

// placeholder reads the placeholder that opens at pos, and returns its size.
func (p parser) placeholder(pos int) (v value, size int, err error) {
	start := pos + len("{")
	inside := p.template[start:]
	end := strings.IndexAny(inside, "{}")
	switch {
	case end < 0:
		return v, 0, p.errorAt(pos, "'{' is never closed; write {{ for a brace in the text")
	case inside[end] == '{':
		return v, 0, p.errorAt(start+end, "'{' inside a placeholder")
	}
	inside = inside[:end]

	subject, _, _ := strings.Cut(inside, "|")
	if v, err = p.subject(start, subject); err != nil {
		return v, 0, err
	}
	for at := len(subject); at < len(inside); {
		at += len("|")
		name, _, _ := strings.Cut(inside[at:], "|")
		f, err := p.filter(start+at, name)
		if err != nil {
			return v, 0, err
		}
		if reason := v.contradicts(f); reason != "" {
			return v, 0, p.errorAt(start+at, "%s", reason)
		}
		v.filters = append(v.filters, f)
		at += len(name)
	}
	if v.fallback != "" {
		at := start + len(subject) - len(v.fallback)
		def, reason := v.filtered(v.fallback)
		if reason != "" {
			return v, 0, p.errorAt(at, "the default %s", reason)
		}
		v.fallback = def
	}
	return v, len("{") + end + len("}"), nil
}

// namedSources come with a name, plainSources without.
var (
	namedSources = []string{
		string(sourceParam), string(sourceQuery), string(sourceHeader), string(sourceBody), string(sourceForm), string(sourceCookie), string(sourceValue),
	}
	plainSources = []string{string(sourceMethod), string(sourceRoute), string(sourceParams)}
)

// subject reads the text before the first '|': source.name, source.name?,
// source.name?=default or source.
func (p parser) subject(pos int, text string) (value, error) {
	text, after, optional := strings.Cut(text, "?")
	switch {
	case after != "" && text == "":
		return value{}, p.errorAt(pos, "'?' must stand after the name")
	case after != "":
		v, err := p.subject(pos, text+"?")
		if err != nil { // as of {param?.id}
			return value{}, p.errorAt(pos+len(text), "'?' must stand at the end of the name, as in {param.id?}")
		}
		at := pos + len(text) + len("?")
		if after[0] != '=' {
			return value{}, p.errorAt(at, "nothing but '=' and a default, or filters, may stand behind '?'; write {%s?} or {%[1]s?=0}", text)
		}
		if v.fallback = after[1:]; v.fallback == "" {
			return value{}, p.errorAt(at, "the default is missing behind '='; leave that out if an empty value is meant")
		}
		return v, p.trimmed(at+len("="), v.fallback)
	}
	word, name, dotted := strings.Cut(text, ".")
	dot := pos + len(word)
	if err := p.trimmed(pos, word); err != nil {
		return value{}, err
	}
	switch {
	case word == "":
		return value{}, p.errorAt(pos, "a placeholder begins with a source, as in {param.id}")
	case slices.Contains(plainSources, word):
		if dotted {
			if word == string(sourceParams) && name != "" {
				return value{}, p.errorAt(dot, "params takes no name; did you mean {param.%s}?", name)
			}
			return value{}, p.errorAt(dot, "%s takes no name", word)
		}
		if optional {
			return value{}, p.errorAt(pos+len(text), "%s cannot be optional", word)
		}
	case slices.Contains(namedSources, word):
		if name == "" {
			return value{}, p.errorAt(pos+len(text), "%s needs a name, as in {%s.id}", word, word)
		}
		if err := p.trimmed(dot+len("."), name); err != nil {
			return value{}, err
		}
		if name, preset, ok := strings.Cut(name, "="); ok {
			return value{}, p.errorAt(dot+len(".")+len(name), "a default stands behind '?', as in {%s.%s?=%s}", word, name, cmp.Or(preset, "0"))
		}
		if at, reason := badName(source(word), name); reason != "" {
			return value{}, p.errorAt(dot+len(".")+at, "%s", reason)
		}
	default:
		reason := oneOf(word, slices.Concat(namedSources, plainSources))
		if bare, _, _ := strings.Cut(word, ":"); !dotted && bare != "" && strings.HasPrefix(reason, knownAre) {
			reason = fmt.Sprintf("write where the value comes from, as in {param.%s}; %s", bare, reason)
		}
		return value{}, p.errorAt(pos, "unknown source %q; %s", word, reason)
	}
	return value{source: source(word), name: name, optional: optional}, nil
}

// filter reads the name of a filter.
func (p parser) filter(pos int, name string) (filter, error) {
	if name == "" {
		return filter{}, p.errorAt(pos, "a filter is missing after '|'")
	}
	if err := p.trimmed(pos, name); err != nil {
		return filter{}, err
	}
	for _, f := range knownFilters {
		if f.name == name {
			return f, nil
		}
	}
	if i := strings.IndexByte(name, '?'); i >= 0 {
		return filter{}, p.errorAt(pos+i, "'?' must stand after the name")
	}
	return filter{}, p.errorAt(pos, "unknown filter %q; %s", name, oneOf(name, filterNames()))
}

// trimmed refuses space and what nobody sees around a word. In a name it would be
// part of the name, which no request has then, and nobody sees why.
func (p parser) trimmed(pos int, word string) error {
	blanks := word[:len(word)-len(strings.TrimLeftFunc(word, isBlank))]
	if blanks == "" {
		trimmed := strings.TrimRightFunc(word, isBlank)
		blanks = word[len(trimmed):]
		pos += len(trimmed)
	}
	switch r, _ := utf8.DecodeRuneInString(blanks); {
	case blanks == "":
		return nil
	case unicode.IsSpace(r):
		return p.errorAt(pos, "space in a placeholder")
	default:
		return p.errorAt(pos, "the invisible character %U in a placeholder; remove it", r)
	}
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }

// errorAt returns the error for the position pos.
func (p parser) errorAt(pos int, format string, args ...any) error {
	return &SyntaxError{
		Template: p.template,
		Column:   utf8.RuneCountInString(p.template[:pos]) + 1,
		Reason:   fmt.Sprintf(format, args...),
	}
}
