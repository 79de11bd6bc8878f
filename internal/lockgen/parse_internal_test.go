package lockgen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func noPackage(string) bool { return false }

func TestPathsAreRead(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"id", "id"},
		{"order.Customer.ID", "order.Customer.ID"},
		{"req.GetOrder().GetId()", "req.GetOrder().GetId()"},
		{"tenant()", "tenant()"},
		{"tenant( ctx ,order.ID )", "tenant(ctx, order.ID)"},
		{"tenant(ctx).ID", "tenant(ctx).ID"},
		{"skus...", "skus..."},
		{"order.Lines...", "order.Lines..."},
		{"straße", "straße"},
		{"_x1", "_x1"},
	} {
		p, err := parsePath(tc.text, noPackage)
		if err != nil || p.text() != tc.want {
			t.Errorf("%s: got %q, %v; want %q", tc.text, p.text(), err, tc.want)
		}
	}
}

// The mark stands under the place that an error names.
func TestMistakesInKeysAreLocated(t *testing.T) {
	for _, tc := range []struct{ text, mark, want string }{
		{"{}", " ^", "has no space around it"},
		{"{ id}", " ^", "has no space around it"},
		{"{id", "^", "'{' is never closed"},
		{"id}", "  ^", "'}' without '{'"},
		{"{a{b}}", "  ^", "'{' inside a placeholder"},
		{"${id}", "^", "'${' is not how a placeholder begins: write {id}"},
		{"#{#id}", "^", "'#{' is not how a placeholder begins: write {id}"},
		{"a:#{id}", "  ^", "'#{' is not how a placeholder begins: write {id}"},
		{"#order.id", "^", `"#order.id" is no placeholder here, but text that all keys would share: write {order.id}`},
		{"order:%s", "      ^", `"%s" is no placeholder here, but text that all keys would share: write {id}`},
		{"a{{id}}", " ^", `"{{id}}" is no placeholder here, but text that all keys would share: write {id}`},
		{"a:<id>", "  ^", `"<id>" is no placeholder here`},
		{"order::id", "      ^", `":id" is no placeholder here, but text that all keys would share: write {id}`},
		{"a{{}}", " ^", "a key without placeholders has no braces"},
		{"{id?x}", "   ^", "'?' must stand at the end of the name, or a default behind it, as in {id?=0}"},
		{"a:{id?=}", "      ^", "the default is missing behind '='; leave that out if an empty value is meant"},
		{"a:{id?=x|int}", "       ^", "the default is not an integer"},
		{"{method?}", " ^", "method cannot be optional"},
		{"{skus...?}", " ^", "a list cannot be optional"},
		{"{id|}", "    ^", "a filter is missing after '|'"},
		{"{id|lowr}", "    ^", `unknown filter "lowr"; did you mean "lower"?`},
		{"{a}-{id|int|x}", "            ^", `unknown filter "x"; known are`},
		{"{params|x}", "        ^", `unknown filter "x"; known are`},
		{"{method}:{params}:%s:{id}", "                  ^", "verbs of package fmt are not filled in"},
		{"{a.}", "   ^", "a field or method is missing"},
		{"{a..b}", "   ^", "'.' is not expected"},
		{"{a[0]}", "  ^", "no index in a key"},
		{"{*a}", " ^", "'*' is not needed"},
		{"{\"a\"}", " ^", "no text inside of a placeholder"},
		{"{#a}", " ^", "'#' is not how a placeholder begins: write {a}"},
		{"{range}", " ^", `"range" is a keyword of Go`},
		{"{_}", " ^", "'_' has no value"},
		{"{a.b(c)}", "    ^", "a method in a key takes no arguments"},
		{"{f(g(x))}", "    ^", "a call inside of a call"},
		{"{f(a.b())}", "     ^", "a call inside of a call"},
		{"{f(a...)}", "    ^", "'...' inside of a call"},
		{"{f(a}", "  ^", "'(' is never closed"},
		{"{f(a b)}", "     ^", "'b' is not expected"},
		{"{skus...x}", "        ^", "'...' ends a placeholder; write a function of the package that takes what is meant of each element, as in {texts(skus)...}"},
		{"{a b}", "  ^", "' ' is not expected"},
		{"é{id|lowr}", "      ^", "unknown filter"},
	} {
		_, err := parseKey(tc.text, noPackage)
		switch {
		case err == nil:
			t.Errorf("%s: no error, want %q", tc.text, tc.want)
		case !strings.Contains(err.reason, tc.want) || err.at != strings.Index(tc.mark, "^"):
			t.Errorf("got\n%s\n%s^ %s\nwant\n%s %s", tc.text, strings.Repeat(" ", max(err.at, 0)), err.reason, tc.mark, tc.want)
		}
	}
}

func TestSimilarNamesAreFound(t *testing.T) {
	known := []string{"ttl", "wait", "retry_interval", "ID", "Customer"}
	for wrong, want := range map[string]string{
		"TTL": "ttl", "retryInterval": "retry_interval", "retry-interval": "retry_interval", "retry_intervall": "retry_interval",
		"wiat": "wait", "waits": "wait", "id": "ID", "Custmer": "Customer", "x": "", "Receipt": "", "i": "", "idd": "ID",
	} {
		if got := similar(wrong, known); got != want {
			t.Errorf("similar(%q) = %q, want %q", wrong, got, want)
		}
	}
}

func TestGeneratedFilesStayInTheBuildOfTheirSource(t *testing.T) {
	for source, want := range map[string]string{
		"a/orders.go": "a/orders_lockgen.go", "orders_linux.go": "orders_lockgen_linux.go", "orders_linux_amd64.go": "orders_lockgen_linux_amd64.go",
		"linux.go": "linux_lockgen.go", "my_orders.go": "my_orders_lockgen.go",
	} {
		if got := writtenPath(source); got != want {
			t.Errorf("writtenPath(%q) = %q, want %q", source, got, want)
		}
	}
}

func TestAFileIsInTheBuildsOfItsLineAndOfCgo(t *testing.T) {
	for source, want := range map[string]string{
		"package p":                                              "",
		"//go:build linux || !race\n\npackage p":                 "//go:build linux || !race",
		"package p\n\nimport \"C\"":                              "//go:build cgo",
		"//go:build linux || !race\n\npackage p\n\nimport \"C\"": "//go:build cgo && (linux || !race)",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := buildLine(f); got != want {
			t.Errorf("%q is built with %q, want %q", source, got, want)
		}
	}
}

func TestTestsHaveThePackagesOfTheirBuild(t *testing.T) {
	got := flagsOf([]debug.BuildSetting{{Key: "-compiler", Value: "gc"}, {Key: "-race", Value: "true"}, {Key: "-tags", Value: "a,b"}, {Key: "GOOS", Value: "linux"}})
	if want := []string{"-race=true", "-tags=a,b"}; !slices.Equal(got, want) {
		t.Errorf("flags = %q, want %q", got, want)
	}
}

func TestEveryFieldOfAPolicyIsAnOption(t *testing.T) {
	for field := range reflect.TypeFor[lockmw.Policy]().Fields() {
		if !slices.ContainsFunc(knownOptions, func(o knownOption) bool { return o.field == field.Name }) {
			t.Errorf("no option is for %s; see knownOptions", field.Name)
		}
	}
	for _, o := range knownOptions {
		var p lockmw.Policy
		if code, wrong := o.read(&p, o.example); wrong != "" || code == nil || reflect.ValueOf(p).FieldByName(o.field).IsZero() {
			t.Errorf("%s=%s does not set %s: %+v, %s", o.name, o.example, o.field, p, wrong)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"id", "a.B.C()", "f(ctx, a.B).C", "skus...", "f(", "a..b", "ü.é", "f(a,)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text, noPackage)
		if err != nil {
			if err.at < 0 || err.at > len(text) || err.reason == "" {
				t.Errorf("%q: the error is at %d: %q", text, err.at, err.reason)
			}
			return
		}
		again, err := parsePath(p.text(), noPackage)
		if err != nil || again.text() != p.text() {
			t.Errorf("%q is read as %q, which is read as %q, %v", text, p.text(), again.text(), err)
		}
	})
}

func FuzzDirective(f *testing.F) {
	for _, s := range []string{
		"{id}", "order:{order.ID|lower} prefix=pay- ttl=3s retries=3", "{a} {b?} {skus...} policy=p", `"{tenant(ctx, id)}" wait=2s`, "`x` mode=shared",
		"\"a", "{id} ttl=3000", "{id|int|hash}-#{x}", "reentrant", "x=", "{{{id}}}", "$ {", "{id}%",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		if strings.ContainsAny(args, "\n\r") {
			return // a line has none
		}
		c := &ast.Comment{Slash: 1000, Text: "//lockmw:lock " + args}
		d, wrong := readDirective(c)
		if (d == nil) == (wrong == nil) {
			t.Fatalf("%q: a directive %v and a mistake %v", args, d, wrong)
		}
		if d == nil {
			return
		}
		_, issues := d.readOptions()
		for _, i := range issues {
			if i.pos < c.Pos() || i.pos > c.End() || i.reason == "" {
				t.Errorf("%q: the mistake is at %d of %d: %q", args, i.pos-c.Pos(), len(c.Text), i.reason)
			}
		}
		for _, w := range d.keys {
			k, err := parseKey(w.text, noPackage)
			if err != nil {
				if err.at < 0 || err.at > len(w.text) || err.reason == "" {
					t.Errorf("%q: the mistake is at %d: %q", w.text, err.at, err.reason)
				}
				continue
			}
			if len(k.holes) > 0 {
				template, _ := k.template([]string{"a", "b"})
				if _, err := keyfunc.Parse(template); err != nil {
					t.Errorf("%q is taken, and keyfunc refuses it: %v", w.text, err)
				}
			}
		}
	})
}
