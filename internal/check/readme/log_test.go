package readme

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every line that a Locker logs has a row in errors.md, and every row is of a line that is logged.
func TestEveryLineOfTheLogHasARow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := logTable(string(text))
	if len(table) < 30 {
		t.Fatalf("the table has %d lines of the log: is the way they are found still right?", len(table))
	}
	var lines, texts []string
	for _, pkg := range []string{"lockmw", "internal/janitor", "internal/report", "internal/door", "internal/httpdoor", "internal/rpcdoor"} {
		for _, file := range parsed(t, pkg) {
			logged, all := loggedIn(file)
			lines, texts = append(lines, logged...), append(texts, all...)
		}
	}
	for _, line := range lines {
		if !slices.ContainsFunc(table, func(row string) bool { return begins(line, row) }) {
			t.Errorf("errors.md has no row for the line %q", line)
		}
	}
	for _, row := range table {
		if !slices.ContainsFunc(texts, func(text string) bool { return begins(text, row) }) {
			t.Errorf("errors.md has a row for %q, which nothing logs", row)
		}
	}
}

// logTable returns the beginnings of the lines that errors.md has in its table.
func logTable(page string) (lines []string) {
	_, rest, _ := strings.Cut(page, "### Every line of the log\n")
	table, _, _ := strings.Cut(rest, "\nSome packages have a log of their own")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 5 {
			continue
		}
		for i, word := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				lines = append(lines, word)
			}
		}
	}
	return lines
}

// begins reports whether a line begins as a row says, in which … stands for anything.
func begins(line, row string) bool {
	for part := range strings.SplitSeq(row, "…") {
		at := strings.Index(line, strings.TrimSpace(part))
		if at < 0 || line == "" {
			return false
		}
		line = line[at+len(strings.TrimSpace(part)):]
	}
	return true
}

// loggedIn returns the lines that a file logs, without "lockmw: ", and all its texts, among which are the parts of which other lines
// are made.
func loggedIn(file *ast.File) (lines, texts []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.Ident:
				if f.Name == "panic" {
					return false
				}
			case *ast.SelectorExpr:
				if slices.Contains([]string{"New", "Errorf"}, f.Sel.Name) {
					return false // an error
				}
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			text, err := strconv.Unquote(n.Value)
			if err != nil {
				break
			}
			text, logs := strings.CutPrefix(text, "lockmw: ")
			texts = append(texts, text)
			if logs && text != "" && !strings.HasPrefix(text, "acquire ") { // which is how an AcquireError begins
				lines = append(lines, text)
			}
		}
		return true
	})
	return lines, texts
}
