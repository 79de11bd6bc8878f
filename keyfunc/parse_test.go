package keyfunc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// The mark stands under the column that the error must point at.
func TestSyntaxErrorPointsAtTheColumn(t *testing.T) {
	for _, tc := range []struct{ template, mark, reason string }{
		{"", "^", "empty template; an empty key would lock all requests against each other"},
		{"a{param.id", " ^", "'{' is never closed; write {{ for a brace in the text"},
		{"a}b", " ^", "'}' without '{'; write }} for a brace in the text"},
		{"{{a}", "   ^", "'}' without '{'; write }} for a brace in the text"},
		{"{param.{id}}", "       ^", "'{' inside a placeholder"},
		{"a:{}", "   ^", "a placeholder begins with a source, as in {param.id}"},
		{"{.id}", " ^", "a placeholder begins with a source, as in {param.id}"},
		{"{|int}", " ^", "a placeholder begins with a source, as in {param.id}"},
		{"order:{parm.id}", "       ^", `unknown source "parm"; did you mean "param"?`},
		{"{Query.id}", " ^", `unknown source "Query"; did you mean "query"?`},
		{"{HEADER.X}", " ^", `unknown source "HEADER"; did you mean "header"?`},
		{"{id}", " ^", `unknown source "id"; write where the value comes from, as in {param.id}; known are param, query, header, body, form, cookie, value, method, route, params`},
		{"Größe:{heder.X}", "       ^", `unknown source "heder"; did you mean "header"?`},
		{"\xff{id}", "  ^", `unknown source "id"; write where the value comes from, as in {param.id}; known are param, query, header, body, form, cookie, value, method, route, params`},
		{"{param}", "      ^", "param needs a name, as in {param.id}"},
		{"{param.}", "       ^", "param needs a name, as in {param.id}"},
		{"{query.?}", "       ^", "query needs a name, as in {query.id}"},
		{"{body|int}", "     ^", "body needs a name, as in {body.id}"},
		{"{method.id}", "       ^", "method takes no name"},
		{"{params.id}", "       ^", "params takes no name; did you mean {param.id}?"},
		{"{route?}", "      ^", "route cannot be optional"},
		{"{query.a?b}", "         ^", "nothing but filters may stand behind '?'; write {query.a?}: a missing value has no default"},
		{"{query.a??}", "         ^", "nothing but filters may stand behind '?'; write {query.a?}: a missing value has no default"},
		{"{query.a|int?}", "            ^", "'?' must stand after the name"},
		{"{param.id|}", "          ^", "a filter is missing after '|'"},
		{"{param.id||int}", "          ^", "a filter is missing after '|'"},
		{"{param.id|int|}", "              ^", "a filter is missing after '|'"},
		{"{param.id|lowr}", "          ^", `unknown filter "lowr"; did you mean "lower"?`},
		{"{param.id|int|md5}", "              ^", `unknown filter "md5"; known are ` + strings.Join(keyfunc.FilterNames(), ", ")},
		{"{ param.id}", " ^", "space in a placeholder"},
		{"{param .id}", "      ^", "space in a placeholder"},
		{"{param. id}", "       ^", "space in a placeholder"},
		{"{param.id }", "         ^", "space in a placeholder"},
		{"{query.a ?}", "        ^", "space in a placeholder"},
		{"{param.id |int}", "         ^", "space in a placeholder"},
		{"{param.id| int}", "          ^", "space in a placeholder"},
		{"{param.id|int }", "             ^", "space in a placeholder"},
	} {
		t.Run(tc.template, func(t *testing.T) {
			f, err := keyfunc.Parse(tc.template)
			var got *keyfunc.SyntaxError
			if !errors.As(err, &got) || f != nil {
				t.Fatalf("Parse = func is nil: %t, %v, want no func and a *SyntaxError", f == nil, err)
			}
			want := keyfunc.SyntaxError{Template: tc.template, Column: len(tc.mark), Reason: tc.reason}
			if *got != want {
				t.Errorf("error = %+v\nwant    %+v", *got, want)
			}
		})
	}
}

func TestSyntaxErrorShowsTheTemplateWithAMark(t *testing.T) {
	_, err := keyfunc.Parse("größe\n:{parm.id}")
	want := strings.Join([]string{
		`keyfunc: template, column 9: unknown source "parm"; did you mean "param"?`,
		"\tgröße\ufffd:{parm.id}",
		"\t        ^",
	}, "\n")
	if got := err.Error(); got != want {
		t.Errorf("error =\n%s\nwant\n%s", got, want)
	}
}

func TestSyntaxErrorWithoutFieldsHasAText(t *testing.T) {
	if got, want := new(keyfunc.SyntaxError).Error(), "keyfunc: template, column 0: \n\t\n\t^"; got != want {
		t.Errorf("error = %q, want %q", got, want)
	}
}

func TestNameMayHoldDotsAndSpaces(t *testing.T) {
	r := call{fields: texts("first name.v-1_[0]", "ann")}
	wantKey(t, keyfunc.MustParse("{body.first name.v-1_[0]}"), r, "ann")
}
