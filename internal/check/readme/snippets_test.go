package readme

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "../../.."
	module = "github.com/lockmw/kit/"
)

// A snippet is Go code in a document or in a comment.
type snippet struct {
	name  string // of the file
	line  int    // of the file: its first
	above string // the last line of text in front of it, in a document
	code  string
}

// program reports whether the snippet is a whole file, and not a part of one.
func (s snippet) program() bool { return strings.HasPrefix(s.code, "package ") }

// inDocuments returns the fenced ```go blocks of all documents that people wrote.
func inDocuments(t *testing.T) (found []snippet) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "results" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		found = append(found, fenced(name, string(text))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found, func(s snippet) bool { return s.name == "README.md" && s.program() }) {
		t.Fatalf("README.md has no program; found are %d snippets", len(found))
	}
	return found
}

// ownModules are packages whose requirements this module does not have, and the modules that have them. What documents
// say of them stands in the example_test.go there.
var ownModules = map[string]string{
	"gorm":     "fence/dbtest",
	"lockotel": "lockotel",
	"lockprom": "lockprom",
	"pgx":      "fence/dbtest",
}

// The code of these documents is whole files of a folder, where they are compiled and tested. The line in front
// of each names it there: "**cron/main.go**".
var wholeFiles = map[string]string{
	recipesDocument:   recipes,
	"docs/connect.md": starts,
	"docs/echo.md":    starts + "/echo",
	"docs/gin.md":     starts + "/gin",
	"docs/grpc.md":    starts,
	"docs/nethttp.md": starts + "/nethttp",
}

const (
	recipesDocument = "docs/recipes.md"
	recipes         = "examples/recipes"
	starts          = "examples/start"
)

// apart returns the snippets that need a module of their own, and the others.
func apart(all []snippet) (elsewhere, here []snippet) {
	for _, s := range all {
		if ownModule(s) != "" {
			elsewhere = append(elsewhere, s)
		} else {
			here = append(here, s)
		}
	}
	return elsewhere, here
}

func ownModule(s snippet) string {
	if folder, ok := wholeFiles[s.name]; ok {
		return folder
	}
	for name, folder := range ownModules {
		if strings.Contains(s.code, name+".") {
			return folder
		}
	}
	return ""
}

// isExample returns nil if the snippet stands, line by line, in the examples of its module.
func isExample(s snippet) error {
	if folder, ok := wholeFiles[s.name]; ok {
		return isFile(s, folder)
	}
	file := filepath.Join(root, ownModule(s), "example_test.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !strings.Contains(leftAligned(string(text)), leftAligned(s.code)) {
		return fmt.Errorf("%s:%d: this does not stand in %s, where it would be compiled:\n%s", s.name, s.line, file, s.code)
	}
	return nil
}

// isFile returns nil if the snippet is the file of a folder that the line in front of it names.
func isFile(s snippet, folder string) error {
	name, ok := recipeName(s)
	if !ok {
		return fmt.Errorf("%s:%d: the line in front of it names its file, as **cron/main.go** does, and not %q", s.name, s.line, s.above)
	}
	text, err := os.ReadFile(filepath.Join(root, folder, filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("%s:%d: %w", s.name, s.line, err)
	}
	if string(text) != s.code {
		got, want := strings.Split(s.code, "\n"), strings.Split(string(text), "\n")
		at := 0
		for at < min(len(got), len(want))-1 && got[at] == want[at] {
			at++
		}
		return fmt.Errorf("%s:%d: %q is not line %d of %s/%s, which is %q", s.name, s.line+at, got[at], at+1, folder, name, want[at])
	}
	return nil
}

// recipeName returns the file of a recipe, seen from the folder of recipes.
func recipeName(s snippet) (string, bool) {
	name, begins := strings.CutPrefix(s.above, "**")
	name, ends := strings.CutSuffix(name, "**")
	return name, begins && ends && filepath.IsLocal(name)
}

func leftAligned(code string) string {
	var lines strings.Builder
	for line := range strings.Lines(code) {
		lines.WriteString(strings.TrimLeft(line, "\t"))
	}
	return lines.String()
}

// fenced returns the ```go blocks of a document.
func fenced(name, text string) (found []snippet) {
	var open *snippet
	above := ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case open == nil && line == "```go":
			open = &snippet{name: name, line: i + 2, above: above}
		case open != nil && line == "```":
			found, open = append(found, *open), nil
		case open != nil:
			open.code += line + "\n"
		case line != "":
			above = line
		}
	}
	return found
}

// others are the code blocks of doc comments that are not compiled here, since they
// are no Go, or only a part: whose comment it is, and its first word.
var others = []string{
	"echolock: ID", // a field of a struct
	"echolock/v5: ID",
	"fence.Tx: QueryFence(ctx", // of an interface
	"grpclock: Aborted",
	"grpclock.Annotated: import", // of a .proto file
	"grpclock.Idempotent: InvalidArgument",
	"httplock.WithParams: httplock.WithParams(mux.Vars)", // of a package that this module does not need; proof/routers does
	"keyfunc.Parse: order:{param.id}",
	"keyfunc.Parse: lower",
}

// inComments returns the code blocks in the doc comments of the packages that
// snippets use.
func inComments(t *testing.T) (found []snippet) {
	t.Helper()
	var seen []string
	for _, pkg := range slices.Concat(packages, later) {
		dir, ours := strings.CutPrefix(pkg, module)
		if !ours {
			continue
		}
		for name, text := range comments(t, dir) {
			for _, block := range new(comment.Parser).Parse(text).Content {
				code, ok := block.(*comment.Code)
				if !ok {
					continue
				}
				if begins := name + ": " + strings.Fields(code.Text)[0]; slices.Contains(others, begins) {
					seen = append(seen, begins)
				} else {
					found = append(found, snippet{name: name, line: 1, code: code.Text})
				}
			}
		}
	}
	for _, begins := range others {
		if !slices.Contains(seen, begins) {
			t.Errorf("no comment holds such a block: %s", begins)
		}
	}
	return found
}

// comments returns the doc comments of a package, by what they are about.
func comments(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", dir, files, err)
	}
	found := make(map[string]string)
	add := func(c *ast.CommentGroup, names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() && c != nil {
				found[dir+"."+name.Name] += c.Text() + "\n"
			}
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil {
			found[dir] += file.Doc.Text() + "\n"
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				add(d.Doc, d.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(d.Doc, s.Name)
						add(s.Doc, s.Name)
					case *ast.ValueSpec:
						add(d.Doc, s.Names[0])
						add(s.Doc, s.Names[0])
					}
				}
			}
		}
	}
	return found
}
