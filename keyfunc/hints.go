package keyfunc

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A foreignText is how another system writes a placeholder, where that is
// literal text here. Nobody would notice: the text is a part of every key.
type foreignText struct {
	spelling *regexp.Regexp // in literal text; the groups are the foreign text and its name
	means    string
	// always says that it is a mistake beside placeholders, too. Other spellings
	// may be meant as they are, as the ":items" of "order:{param.id}:items"; they
	// explain why a template has no placeholder, if it has none.
	always bool
}

var foreignTexts = []foreignText{
	{regexp.MustCompile(`(\{ *((?:` + strings.Join(slices.Concat(namedSources, plainSources), "|") + `)(?:\.[^{}]*?)?) *\})`), doubled, true},
	{regexp.MustCompile(`(%(?:\[\d+\])?[sdvq])(?:$|[^0-9A-Za-z])`), "verbs of package fmt are not filled in", true},
	{regexp.MustCompile(`(\{ *\.?(` + foreignName + `) *\})`), doubled, false},
	{regexp.MustCompile(`(#(` + foreignName + `))`), "'#name' is no placeholder here", false},
	{regexp.MustCompile(`(?:^|[^0-9A-Za-z])(:(` + foreignName + `))`), "':name' is no placeholder here", false},
	{regexp.MustCompile(`(<(?:\w+:)?(` + foreignName + `)>)`), "'<name>' is no placeholder here", false},
	{regexp.MustCompile(`(\$(` + foreignName + `))`), "'$name' is no placeholder here", false},
}

const (
	foreignName = `[A-Za-z_][\w.\-]*`
	doubled     = "'{{' and '}}' are literal braces"
)

// A literal is text of a template, with the position of each of its bytes.
type literal struct {
	text strings.Builder
	at   []int
}

func (l *literal) add(c byte, pos int) {
	l.text.WriteByte(c)
	l.at = append(l.at, pos)
}

// checkLiterals returns a *SyntaxError if the literals of a template, of which
// it has one more than placeholders, look like placeholders of another system,
// or if there is nothing but literal text.
func (p parser) checkLiterals(literals []*literal) error {
	bare := len(literals) == 1
	for _, l := range literals {
		for _, foreign := range foreignTexts {
			at := foreign.spelling.FindStringSubmatchIndex(l.text.String())
			if at == nil || !bare && !foreign.always {
				continue
			}
			name := ""
			if len(at) > 4 {
				name = l.text.String()[at[4]:at[5]]
			}
			reason := fmt.Sprintf("%s; write %s", foreign.means, placeholderFor(name))
			if bare {
				reason = noValue + ": " + reason + ", or use keyfunc.Const if that is meant"
			}
			return p.errorAt(l.at[at[2]], "%s", reason)
		}
	}
	if bare {
		return p.errorAt(0, "%s; write a placeholder such as {param.id}, or use keyfunc.Const if that is meant", noValue)
	}
	return nil
}

const noValue = "the template names no value, so all requests would take one lock"

// checkOpening refuses "${" and "#{", of which the second character opens a
// placeholder and the first is text. pos is where the brace stands. A '#' may be
// meant as text where it stands behind something: "order#{param.id}".
func (p parser) checkOpening(pos int, valid bool) error {
	before := p.template[:pos]
	switch {
	case strings.HasSuffix(before, "$"):
	case !strings.HasSuffix(before, "#"), valid && separates.MatchString(before):
		return nil
	}
	inside, _, _ := strings.Cut(p.template[pos+1:], "}")
	return p.errorAt(pos-1, "'%s' is not how a placeholder begins; write %s", p.template[pos-1:pos+1], placeholderFor(strings.TrimLeft(inside, "#$. ")))
}

var separates = regexp.MustCompile(`[\pL\pN_}]#$`)

// placeholderFor returns the placeholder that is meant by a name elsewhere: the
// same where it begins with a source, and otherwise one with the most common
// source.
func placeholderFor(name string) string {
	word, _, _ := strings.Cut(name, ".")
	switch {
	case slices.Contains(namedSources, word) && word != name, slices.Contains(plainSources, name):
		return "{" + name + "}"
	case word == "":
		return "{param.id}"
	}
	leaf := name[strings.LastIndexByte(name, '.')+1:]
	return fmt.Sprintf("{param.%s} for a route parameter, {body.%s} for a field of the body", leaf, leaf)
}
