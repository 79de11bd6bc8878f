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
		{"{query.a?b}", "         ^", "nothing but '=' and a default, or filters, may stand behind '?'; write {query.a?} or {query.a?=0}"},
		{"{query.a??}", "         ^", "nothing but '=' and a default, or filters, may stand behind '?'; write {query.a?} or {query.a?=0}"},
		{"{query.a?=}", "         ^", "the default is missing behind '='; leave that out if an empty value is meant"},
		{"{query.a=b}", "        ^", "a default stands behind '?', as in {query.a?=b}"},
		{"{query.a?=|int}", "         ^", "the default is missing behind '='; leave that out if an empty value is meant"},
		{"a:{query.a?=x|lower|int}", "            ^", "the default is not an integer"},
		{"{query.a?=1|uuid}", "          ^", "the default is not a UUID"},
		{"{query.a?= main}", "          ^", "space in a placeholder"},
		{"{query.a?=main }", "              ^", "space in a placeholder"},
		{"{query.a?=b{c}}", "           ^", "'{' inside a placeholder"},
		{"{query?=main}", "      ^", "'?' must stand at the end of the name, as in {param.id?}"},
		{"{?=main}", " ^", "'?' must stand after the name"},
		{"{method?=GET}", "       ^", "'?' must stand at the end of the name, as in {param.id?}"},
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

// A missing value, an empty one and the default are one key.
func TestDefaultIsWhatAMissingValueIs(t *testing.T) {
	for _, tc := range []struct{ template, want, spelled string }{
		{"stock:{query.v?=main}", "stock:main", "main"},
		{"{query.v?=main}", "main", "main"},
		{"{query.v?=Main|lower}", "main", "MAIN"},
		{"page:{query.v?=1|int}", "page:1", "+01"},
		{"page:{query.v?=007|int}", "page:7", "7"},
		{"{query.v?=a.b?=c d:1}", "a.b?=c d:1", "a.b?=c d:1"},
		{"{query.v?=a:b}:x", "a%3Ab:x", "a:b"},
		{"{query.v?=main|hash}", "", ""},
	} {
		key := keyfunc.MustParse(tc.template)
		if tc.spelled == "" {
			tc.spelled = "main"
			tc.want, _ = key(call{query: texts("v", "main")})
		}
		for name, r := range map[string]call{"missing": {}, "empty": {query: texts("v", "")}, "the default": {query: texts("v", tc.spelled)}} {
			t.Run(tc.template+" "+name, func(t *testing.T) { wantKey(t, key, r, tc.want) })
		}
		if other, err := key(call{query: texts("v", "0")}); err != nil && !errors.Is(err, keyfunc.ErrInvalidValue) || other == tc.want {
			t.Errorf("%s: another value has the key %q, error %v", tc.template, other, err)
		}
	}
}

func TestDefaultOver8KiBIsRefused(t *testing.T) {
	_, err := keyfunc.Parse("{query.v?=" + strings.Repeat("x", 8<<10+1) + "}")
	if wrong, ok := errors.AsType[*keyfunc.SyntaxError](err); !ok || wrong.Column != len("{query.v?=")+1 {
		t.Errorf("error = %.100v", err)
	}
}

func TestNameMayHoldDotsAndSpaces(t *testing.T) {
	r := call{fields: texts("first name.v-1_[0]", "ann")}
	wantKey(t, keyfunc.MustParse("{body.first name.v-1_[0]}"), r, "ann")
}
