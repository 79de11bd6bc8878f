package lockgen

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// A directive is a line //lockmw:lock KEY… [option=value…].
type directive struct {
	pos     token.Pos // of the line
	text    string    // behind //lockmw:lock
	keys    []word
	options []option
}

// A word is a part of a directive, and where its text begins.
type word struct {
	text   string
	pos    token.Pos
	quoted bool
}

// An option is a word NAME=VALUE.
type option struct {
	name, value       string
	namePos, valuePos token.Pos
}

// An issue is a mistake at a place in a file.
type issue struct {
	pos    token.Pos
	reason string
}

const (
	tool        = "lockmw"
	verb        = "lock"
	usage       = "//lockmw:lock KEY… [option=value…]"
	whereItGoes = "it goes into the comment directly above a method of an interface, a method of a type, or a function"
)

// lookalike is a line, or one in a comment of many lines, that somebody may have meant as
// a directive, and that Go takes for a comment.
var lookalike = regexp.MustCompile(`(?i)^//(?:\s*lockmw\s*:\s*lock\b|\s*lockgen\s*:|lock\s*:|\s*@(?:distributedlock|lock4j|schedulerlock|lock)\b)` +
	`|(?m:^(?:/\*|\s*\*)?\s*(?://)?lockmw:lock\b)`)

// readDirective reads a line of a comment. It returns nil and no issue for a line that
// is no directive of this tool and does not look like one.
func readDirective(c *ast.Comment) (*directive, *issue) {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	switch {
	case ok && d.Tool == tool && d.Name == verb:
	case ok && d.Tool == tool:
		return nil, &issue{c.Slash, "unknown directive " + tool + ":" + d.Name + "; the only one is " + usage}
	case lookalike.MatchString(c.Text):
		return nil, &issue{c.Slash, "Go takes this line for a comment; a directive is written " + usage + ", without a space behind //"}
	default:
		return nil, nil
	}
	args, err := d.ParseArgs()
	if err != nil {
		return nil, &issue{d.ArgsPos, "a word that begins with a quote ends with one, and a space follows"}
	}
	found := &directive{pos: c.Slash, text: d.Args}
	var words []word
	for _, arg := range joined(c, args) {
		w := word{text: arg.Arg, pos: arg.Pos}
		if q := c.Text[arg.Pos-c.Slash]; q == '"' || q == '`' {
			w.quoted = true
			w.pos++ // exact, unless an escape stands before the mistake
		}
		words = append(words, w)
	}
	for i, w := range words {
		if wrong := w.wrong(words[i+1:]); wrong != nil {
			return nil, wrong
		}
		found.add(w)
	}
	for _, o := range found.options {
		if _, wrong := optionCalled(o.name); wrong != "" && len(found.keys) == 0 && strings.Contains(o.value, "{") {
			return nil, &issue{o.namePos, fmt.Sprintf("unknown option %q; the key has no name in front: %s", o.name, usage)}
		}
	}
	if len(found.keys) == 0 {
		return nil, &issue{d.End(), "the key is missing: " + usage + "; write {method} if all calls are to take one lock"}
	}
	return found, nil
}

// wrong says what is wrong with how a word is written, before the words that follow.
func (w word) wrong(following []word) *issue {
	end := w.pos + token.Pos(len(w.text))
	switch {
	case w.quoted && w.text == "":
		return &issue{w.pos - 1, "an empty key would lock all calls against each other"}
	case w.quoted:
		return nil
	case strings.HasPrefix(w.text, "//"):
		return &issue{w.pos, "no comment stands behind a directive: write it into a line above"}
	case strings.HasSuffix(w.text, ",") && len(following) > 0:
		return &issue{end - 1, "words are separated by spaces: leave out the ','; a word that ends in one is written in quotes"}
	}
	if name, value, ok := strings.Cut(w.text, "="); ok && isOption(name) && value != "" && (value[0] == '"' || value[0] == '`') {
		whole := w.text
		for i := 0; i < len(following) && strings.Count(whole, value[:1]) < 2; i++ {
			whole += " " + following[i].text
		}
		return &issue{end - token.Pos(len(value)), "quotes go around the whole word: \"" + strings.ReplaceAll(whole, value[:1], "") + "\""}
	}
	if name, value := spaced(w, following); name != "" {
		return &issue{w.pos, "an option has no space in it: write " + name + "=" + value}
	}
	return nil
}

// halfOption is the beginning of an option that somebody wrote as wait= 3s, as wait = 3s
// or as wait: 3s.
var halfOption = regexp.MustCompile(`^([A-Za-z_-]+)([=:]?)$`)

// spaced returns the option that w and the words that follow are meant to be together.
func spaced(w word, following []word) (name, value string) {
	m := halfOption.FindStringSubmatch(w.text)
	if m == nil || !isOption(m[1]) || len(following) == 0 {
		return "", ""
	}
	value = following[0].text
	if m[2] == "" {
		second := strings.TrimLeft(value, "=:")
		switch {
		case second == value:
			return "", ""
		case second == "" && len(following) > 1:
			second = following[1].text
		}
		value = second
	}
	if value == "" || strings.ContainsAny(value, "{}=") {
		return "", ""
	}
	return m[1], value
}

// joined puts words together that are one placeholder with spaces: {tenant(ctx, id)}.
func joined(c *ast.Comment, args []ast.DirectiveArg) (words []ast.DirectiveArg) {
	for i := 0; i < len(args); i++ {
		w := args[i]
		for end := i + 1; open(w.Arg) && end < len(args); end++ {
			last := args[end]
			whole := c.Text[w.Pos-c.Slash : int(last.Pos-c.Slash)+len(last.Arg)]
			if !strings.HasSuffix(whole, last.Arg) { // it was in quotes
				break
			}
			if !open(whole) {
				w.Arg, i = whole, end
			}
		}
		words = append(words, w)
	}
	return words
}

// open reports whether a brace is open at the end of a word.
func open(word string) bool {
	word = strings.NewReplacer("{{", "", "}}", "").Replace(word)
	return strings.LastIndexByte(word, '{') > strings.LastIndexByte(word, '}')
}

var optionForm = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)=`)

// add takes a word for an option if it begins like one, and otherwise for a key.
func (d *directive) add(w word) {
	m := optionForm.FindStringSubmatch(w.text)
	if m == nil {
		d.keys = append(d.keys, w)
		return
	}
	d.options = append(d.options, option{
		name: m[1], value: strings.TrimPrefix(w.text, m[0]),
		namePos: w.pos, valuePos: w.pos + token.Pos(len(m[0])),
	})
}
