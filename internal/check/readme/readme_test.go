// Package readme checks the documents: that the Go code in them, and in the package
// comments, compiles as it is printed; that links lead somewhere, and every page is
// found; that tables have a row for each field, option and error; that words.md has
// the words for which pages name it; and that docs/architecture.md names what is there.
//
// Start reading at this file, then snippets_test.go (where snippets are found) and
// check_test.go (how they are compiled). links_test.go, tables_test.go, words_test.go
// and architecture_test.go stand for themselves.
package readme

import (
	"go/format"
	"slices"
	"strings"
	"testing"
)

func TestSnippetsCompileAsPrinted(t *testing.T) {
	elsewhere, documents := apart(inDocuments(t))
	comments := inComments(t)
	for _, s := range elsewhere {
		if err := isExample(s); err != nil {
			t.Error(err)
		}
	}
	c := newChecker(t, slices.Concat(documents, comments)...)
	for _, s := range documents {
		formatted, err := format.Source([]byte(s.code))
		if err == nil && string(formatted) != s.code {
			t.Errorf("%s:%d: not formatted by gofmt; it would be\n%s", s.name, s.line, formatted)
		}
	}
	for _, s := range slices.Concat(documents, comments) {
		if err := c.check(s); err != nil {
			t.Errorf("%v\nin\n%s", err, s.code)
		}
	}
}

// A snippet of a module of its own is compiled there.
func TestASnippetThatIsNoExampleIsFound(t *testing.T) {
	elsewhere, _ := apart([]snippet{{name: "doc.md", line: 7, code: "lockprom.Old()\n"}, {code: "locks.Close(ctx)\n"}})
	if len(elsewhere) != 1 {
		t.Fatalf("%d snippets are of modules of their own, want 1", len(elsewhere))
	}
	if err := isExample(elsewhere[0]); err == nil || !strings.Contains(err.Error(), "doc.md:7") {
		t.Errorf("err = %v, want one about doc.md:7", err)
	}
}

// A check that finds nothing would pass, too.
func TestWhatDoesNotCompileIsFound(t *testing.T) {
	c := newChecker(t)
	for _, tc := range []struct{ name, code, want string }{
		{"a name that nothing declares", "err := locks.Close(last)", "doc.md:7: undefined: last"},
		{"a handler of the wrong type", "mux.Handle(\"/\", pay)", "does not implement http.Handler"},
		{"the results of another version", "lease, err := locks.Acquire(ctx, \"k\", lockmw.Policy{})", "assignment mismatch: 2 variables but locks.Acquire returns 3 values"},
		{"a field that does not exist", "policy := lockmw.Policy{\n\tKeyTimeout: time.Second,\n}", "doc.md:8: unknown field KeyTimeout"},
		{"what was left out", "if err != nil {\n\t…\n}", "doc.md:8: illegal character"},
		{"a package that the preamble does not have", "os.Exit(1)", "undefined: os"},
		{"a variable that its own block does not use", "if id := 42; true {\n}", "declared and not used: id"},
		{"a declaration", "func charge() (order string) { return 42 }", "cannot use 42"},
		{"a program that uses the preamble", "package main\n\nfunc main() {\n\tlocks.Close(nil)\n}", "doc.md:10: undefined: locks"},
		{"a program that does not import what it uses", "package main\n\nfunc main() {\n\tfmt.Println()\n}", "undefined: fmt"},
		{"a program that imports something else", "package main\n\nimport _ \"example.com/x\"\n", "it is not among the packages"},
	} {
		err := c.check(snippet{name: "doc.md", line: 7, code: tc.code})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: err = %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestSnippetsMayUseThePreamble(t *testing.T) {
	c := newChecker(t)
	for _, code := range []string{
		"lease, err := lockmw.FromContext(ctx)", // what a snippet declares is used behind it
		"r.POST(\"/pay\", ginlock.Middleware(locks, keyfunc.Const(\"k\"), lockmw.Policy{}), pay)",
		"e.POST(\"/pay\", pay, echolock.Middleware(locks, keyfunc.Const(\"k\"), lockmw.Policy{}))",
		"mux.HandleFunc(\"/pay\", pay)",
		"if err := locks.Close(ctx); err != nil {\n\treturn err\n}",
		"type order struct{ id int }",
	} {
		if err := c.check(snippet{name: "doc.md", line: 7, code: code}); err != nil {
			t.Errorf("%v\nin\n%s", err, code)
		}
	}
}
