package keyfunc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// What a developer writes in the belief that it is a placeholder, and what the
// program says at its start. Each of these would be the same key for all
// requests, or for more of them than was meant, and nobody would know.
var templateMistakes = []struct {
	wrote  string
	column int
	says   string
}{
	{"nightly", 1, bare + "; write a placeholder such as {param.id}" + orConst},
	{"order:id", 1, bare + "; write a placeholder such as {param.id}" + orConst},
	{"100%", 1, bare + "; write a placeholder such as {param.id}" + orConst},
	{"a{{b", 1, bare + "; write a placeholder such as {param.id}" + orConst},
	{"order:{{param.id}}", 7, bare + ": '{{' and '}}' are literal braces; write {param.id}" + orConst},
	{"order:{{ param.id|int }}", 7, bare + ": '{{' and '}}' are literal braces; write {param.id|int}" + orConst},
	{"Größe:{{params}}", 7, bare + ": '{{' and '}}' are literal braces; write {params}" + orConst},
	{"order:{{id}}", 7, bare + ": '{{' and '}}' are literal braces; write {param.id}" + orBody("id") + orConst},
	{"order:{{.ID}}", 7, bare + ": '{{' and '}}' are literal braces; write {param.ID}" + orBody("ID") + orConst},
	{"order:${{ order.id }}", 8, bare + ": '{{' and '}}' are literal braces; write {param.id}" + orBody("id") + orConst},
	{"#order.id", 1, bare + ": '#name' is no placeholder here; write {param.id}" + orBody("id") + orConst},
	{"order:#id", 7, bare + ": '#name' is no placeholder here; write {param.id}" + orBody("id") + orConst},
	{"order::id", 7, bare + ": ':name' is no placeholder here; write {param.id}" + orBody("id") + orConst},
	{":id", 1, bare + ": ':name' is no placeholder here; write {param.id}" + orBody("id") + orConst},
	{"/orders/:order_id/pay", 9, bare + ": ':name' is no placeholder here; write {param.order_id}" + orBody("order_id") + orConst},
	{"order:%s", 7, bare + ": verbs of package fmt are not filled in; write {param.id}" + orConst},
	{"order:%[1]d:pay", 7, bare + ": verbs of package fmt are not filled in; write {param.id}" + orConst},
	{"order:<id>", 7, bare + ": '<name>' is no placeholder here; write {param.id}" + orBody("id") + orConst},
	{"order:<int:id>", 7, bare + ": '<name>' is no placeholder here; write {param.id}" + orBody("id") + orConst},
	{"order:$id", 7, bare + ": '$name' is no placeholder here; write {param.id}" + orBody("id") + orConst},

	{"{value.tenant}:{{param.id}}", 16, "'{{' and '}}' are literal braces; write {param.id}"},
	{"{value.tenant}:{{query.id?|int}}", 16, "'{{' and '}}' are literal braces; write {query.id?|int}"},
	{"%s:{param.id}", 1, "verbs of package fmt are not filled in; write {param.id}"},
	{"{param.id}-%v", 12, "verbs of package fmt are not filled in; write {param.id}"},
	{"order:${param.id}", 7, "'${' is not how a placeholder begins; write {param.id}"},
	{"order:${id}", 7, "'${' is not how a placeholder begins; write {param.id}" + orBody("id")},
	{"order:${order.id}:{param.x}", 7, "'${' is not how a placeholder begins; write {param.id}" + orBody("id")},
	{"order:#{param.id}", 7, "'#{' is not how a placeholder begins; write {param.id}"},
	{"order:#{#order.id}", 7, "'#{' is not how a placeholder begins; write {param.id}" + orBody("id")},
	{"#{param.id}", 1, "'#{' is not how a placeholder begins; write {param.id}"},
	{"order#{id}", 6, "'#{' is not how a placeholder begins; write {param.id}" + orBody("id")},
	{"order:#{}", 7, "'#{' is not how a placeholder begins; write {param.id}"},
	{"order:{id}", 8, `unknown source "id"; write where the value comes from, as in {param.id}` + sourcesAre},
	{"order:{id:[0-9]+}", 8, `unknown source "id:[0-9]+"; write where the value comes from, as in {param.id}` + sourcesAre},
	{"order:{order.id}", 8, `unknown source "order"` + sourcesAre},
	{"order:{parm.id}", 8, `unknown source "parm"; did you mean "param"?`},
	{"order:{params.id}", 14, "params takes no name; did you mean {param.id}?"},
	{"order:{param}", 13, "param needs a name, as in {param.id}"},

	{"{header.X User}", 10, "no header has ' ' in its name; write X-User"},
	{"user:{header.Authorization: Bearer?}", 27, "no header has ':' in its name; write the name alone, such as X-User"},
	{"{header.:}", 9, "no header has this name; write one such as X-User"},
	{"{header.Größe}", 11, "no header has 'ö' in its name; write the name alone, such as X-User"},
	{"{cookie.my session}", 11, "no cookie has ' ' in its name; write the name alone, such as session"},
	{"{cookie.a;b}", 10, "no cookie has ';' in its name; write the name alone, such as session"},
	{"{body.a..b}", 9, "a name is empty in the path of the field; write a.b"},
	{"{body..a}", 7, "a name is empty in the path of the field; write a"},
	{"{body.größe.?}", 13, "a name is empty in the path of the field; write größe"},
	{"{body...}", 7, "a name is empty in the path of the field; write names with dots between, such as customer.id"},
	{"{param.id\u200b}", 10, "the invisible character U+200B in a placeholder; remove it"},
	{"{param.\ufeffid}", 8, "the invisible character U+FEFF in a placeholder; remove it"},

	{"{param.id|int|uuid}", 15, "|int takes an integer and |uuid a UUID; write the one that the handler reads"},
	{"{param.id?|uuid|lower|int}", 23, "|uuid takes a UUID and |int an integer; write the one that the handler reads"},
	{"{param.id|hash|int}", 16, "behind |hash there is a digest and no longer the value; write |int|hash"},
	{"user:{body.mail|hash|lower}", 22, "behind |hash there is a digest and no longer the value; write |lower|hash"},
	{"{method|int}", 9, "no request's method is an integer"},
	{"{route|lower|uuid}", 14, "no request's route is a UUID"},

	{"{param?.id}", 7, "'?' must stand at the end of the name, as in {param.id?}"},
	{"{method?x}", 8, "'?' must stand at the end of the name, as in {param.id?}"},
	{"{query.a?0}", 10, "nothing but '=' and a default, or filters, may stand behind '?'; write {query.a?} or {query.a?=0}"},
	{"{?query.a}", 2, "'?' must stand after the name"},
}

const (
	bare       = "the template names no value, so all requests would take one lock"
	orConst    = ", or use keyfunc.Const if that is meant"
	sourcesAre = "; known are param, query, header, body, form, cookie, value, method, route, params"
)

func orBody(name string) string {
	return " for a route parameter, {body." + name + "} for a field of the body"
}

func TestTemplateMistakeIsToldAtTheStart(t *testing.T) {
	for _, tc := range templateMistakes {
		t.Run(tc.wrote, func(t *testing.T) {
			_, err := keyfunc.Parse(tc.wrote)
			got, _, _ := strings.Cut(fmt.Sprint(err), "\n")
			if want := fmt.Sprintf("keyfunc: template, column %d: %s", tc.column, tc.says); got != want {
				t.Errorf("error = %s\nwant    %s", got, want)
			}
		})
	}
}

// What looks like a placeholder of another system and may well be meant as it is.
func TestTextBesidePlaceholdersStaysText(t *testing.T) {
	r := call{param: texts("id", "7"), method: "POST"}
	for _, tc := range []struct{ template, want string }{
		{"order:{param.id}:items", "order:7:items"},
		{"order:{param.id}/:items", "order:7/:items"},
		{"shop::order:{param.id}", "shop::order:7"},
		{"{param.id}#items", "7#items"},
		{"#items:{param.id}", "#items:7"},
		{"<none>:{param.id}", "<none>:7"},
		{"$id:{param.id}", "$id:7"},
		{"order#{param.id}", "order#7"},
		{"größe#{param.id}", "größe#7"},
		{"{method}#{param.id}", "POST#7"},
		{"price $:{param.id}", "price $:7"},
		{"100%:{param.id}", "100%25:7"},
		{"50%discount:{param.id}", "50%25discount:7"},
		{"a%d0b:{param.id}", "a%25d0b:7"},
		{"{{tag}}:{param.id}", "%7Btag%7D:7"},
		{"{{{param.id}}}", "%7B7:%7D"},
		{"job:{method}", "job:POST"},
	} {
		t.Run(tc.template, func(t *testing.T) {
			wantKey(t, keyfunc.MustParse(tc.template), r, tc.want)
		})
	}
}

// The functions refuse names of headers, cookies and fields as templates do.
func TestNameThatNoRequestHasPanics(t *testing.T) {
	x := keyfunc.Const("x")
	for _, tc := range []struct {
		wrote func()
		says  string
	}{
		{func() { keyfunc.Header("X User") }, `header "X User": no header has ' ' in its name; write X-User`},
		{func() { keyfunc.Header("  ") }, `header "  ": no header has ' ' in its name; write the name alone, such as X-User`},
		{func() { keyfunc.Header(":") }, `header ":": no header has this name; write one such as X-User`},
		{func() { keyfunc.Cookie("a=b") }, `cookie "a=b": no cookie has '=' in its name; write the name alone, such as session`},
		{func() { keyfunc.Body("a..b") }, `body "a..b": a name is empty in the path of the field; write a.b`},
		{func() { keyfunc.Each("body.items.", x) }, `Each of "body.items.": a name is empty in the path of the field; write items`},
	} {
		t.Run(tc.says, func(t *testing.T) {
			if got := panicOf(t, tc.wrote); got != "keyfunc: "+tc.says {
				t.Errorf("panic = %v\nwant    keyfunc: %s", got, tc.says)
			}
		})
	}
}

// Names and filters that look odd, or do nothing, and are right somewhere.
func TestWhatSomeRequestHasIsTaken(t *testing.T) {
	const authority = ":authority" // of gRPC's metadata
	r := call{
		header: texts(authority, "shop.test", "X_User.v1~", "ann"), cookie: texts("__Host-sid", "7"), query: texts("a..b", "1", "x y", "2"),
		fields: texts("items[0]", "3", "größe", "4", "a\u200db", "5"), form: texts("a..b", "6"), values: map[string]any{"a..b": "7"},
	}
	for template, want := range map[string]string{
		"{header.:authority}": "shop.test", "{header.X_User.v1~}": "ann", "{cookie.__Host-sid}": "7", "{query.a..b}": "1", "{query.x y}": "2",
		"{body.items[0]}": "3", "{body.größe}": "4", "{body.a\u200db}": "5", "{form.a..b}": "6", "{value.a..b}": "7",
		"{query.x y|int|int|lower}": "2", "{header.X_User.v1~|lower|lower}": "ann",
	} {
		t.Run(template, func(t *testing.T) { wantKey(t, keyfunc.MustParse(template), r, want) })
	}
}

// What a developer writes with functions, and what the refusal of a request says.
func TestMistakeWithFunctionsIsTold(t *testing.T) {
	x, none := keyfunc.Const("x"), native("")
	both := keyfunc.All(x, keyfunc.Const("y"))
	const around = "; All goes around other Funcs, or one lock would stand for all its keys"
	for _, tc := range []struct {
		wrote string
		f     keyfunc.Func
		r     call
		says  string
	}{
		{"Join with a part that finds nothing", keyfunc.Join(x, none, x), call{}, "required value is missing or empty: part 2 of Join; if that is meant, make it keyfunc.Optional(part)"},
		{"Join of nothing but Optional", keyfunc.Join(keyfunc.Optional(none)), call{}, "required value is missing or empty: all parts of Join"},
		{"Join around All", keyfunc.Join(x, both), call{}, "value cannot be used: part 2 of Join names 2 keys" + around},
		{"Hash around All", keyfunc.Hash(both), call{}, "value cannot be used: key to Hash names 2 keys" + around},
		{"Optional alone", keyfunc.Optional(keyfunc.Param("id")), call{route: "/:id"}, `required value is missing or empty: param "id" (Optional allows that in Join and All)`},
		{"All with a Func that finds nothing", keyfunc.All(x, none), call{}, "required value is missing or empty: key 2 of All"},
		{"All of nothing but Optional", keyfunc.All(keyfunc.Optional(none)), call{}, "required value is missing or empty: all keys of All"},
		{"All called like a Func of one key", both, call{}, "several keys, which only a middleware and keyfunc.KeysOf take"},
		{"Params of a wildcard that is empty", keyfunc.Params(), call{route: "/a/{a}/*", param: texts("a", "1")}, `required value is missing or empty: param "*"`},
		{"Each of an array that is missing", keyfunc.Each("body.ids", x), call{}, `required value is missing or empty: body "ids"`},
		{"Each of an array with an empty element", keyfunc.Each("body.ids", keyfunc.Body("ids")), array("ids", "1", ""), `required value is missing or empty: body "ids"`},
	} {
		t.Run(tc.wrote, func(t *testing.T) {
			key, err := tc.f(tc.r)
			if got := fmt.Sprint(err); key != "" || got != "keyfunc: "+tc.says {
				t.Errorf("key %q, error = %s\nwant    keyfunc: %s", key, got, tc.says)
			}
		})
	}
}
