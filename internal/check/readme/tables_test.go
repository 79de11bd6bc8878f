package readme

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
)

// What is new in the code has a row in the table of its page.
func TestEveryFieldOptionAndErrorHasARow(t *testing.T) {
	wantRows(t, "docs/policy.md", fieldsOf[lockmw.Policy]())
	wantRows(t, "docs/answers.md", fieldsOf[lockmw.Flight]())

	var options []string
	for _, pkg := range []string{"httplock", "ginlock", "echolock", "echolock/v5", "grpclock", "connectlock"} {
		options = append(options, exported(t, pkg, "With")...)
	}
	wantRows(t, "docs/middlewares.md", options)

	ofLocker := slices.DeleteFunc(exported(t, "lockmw", "With"), func(name string) bool { return name == "WithLock" })
	wantRows(t, "docs/operating.md", ofLocker)

	wantRows(t, "docs/errors.md", exported(t, "lockmw", "Err"))
}

// fieldsOf returns the names of the fields of a struct.
func fieldsOf[T any]() (names []string) {
	for field := range reflect.TypeFor[T]().Fields() {
		names = append(names, field.Name)
	}
	return names
}

// A reader of the page of a framework sees there what an option takes, as the code has it.
func TestTheFirstPageOfAFrameworkHasItsOptions(t *testing.T) {
	for page, pkg := range map[string]string{
		"docs/connect.md": "connectlock",
		"docs/echo.md":    "echolock/v5",
		"docs/gin.md":     "ginlock",
		"docs/grpc.md":    "grpclock",
		"docs/nethttp.md": "httplock",
	} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		lines := optionLines(t, pkg)
		if len(lines) < 10 {
			t.Errorf("%s has %d options and functions that take some: is the way they are found still right?", pkg, len(lines))
		}
		for _, line := range lines {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s lacks\n%s", page, line)
			}
		}
	}
}

// optionLines returns the lines of a page that have the functions of a package that take options, and the first two cells of the rows of its options.
func optionLines(t *testing.T, pkg string) (lines []string) {
	t.Helper()
	for _, file := range parsed(t, pkg) {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Recv != nil || !d.Name.IsExported() {
				continue
			}
			takes, returns := source(t, d.Type.Params), source(t, d.Type.Results)
			switch {
			case strings.HasSuffix(takes, "opts ...Option"):
				lines = append(lines, fmt.Sprintf("\n    func %s(%s) %s\n", d.Name.Name, takes, returns))
			case returns == "Option":
				cell := "nothing"
				if takes != "" {
					cell = "`" + takes + "`"
				}
				name := d.Name.Name
				lines = append(lines, fmt.Sprintf("\n| [`%s`](https://pkg.go.dev/%s%s#%s) | %s |", name, module, pkg, name, cell))
			}
		}
	}
	return lines
}

// source returns what a function takes or returns, as it is written.
func source(t *testing.T, fields *ast.FieldList) string {
	t.Helper()
	if fields == nil {
		return ""
	}
	var all []string
	for _, field := range fields.List {
		var b strings.Builder
		if err := printer.Fprint(&b, token.NewFileSet(), field.Type); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
		all = append(all, strings.TrimLeft(strings.Join(names, ", ")+" "+b.String(), " "))
	}
	return strings.Join(all, ", ")
}

// A check that finds nothing would pass, too.
func TestANameWithoutARowIsFound(t *testing.T) {
	text := "| `Wait` | `TTL`, `MinHold` |\n\n`Name` is no row, and neither is `Mode`.\n"
	if got := withoutRows(text, []string{"Wait", "TTL", "Name", "Mode", "Hold"}); !slices.Equal(got, []string{"Name", "Mode", "Hold"}) {
		t.Errorf("without a row are %q", got)
	}
	if got := exported(t, "lockmw", "With"); !slices.Contains(got, "WithNamespace") || slices.Contains(got, "WithLocks") {
		t.Errorf("lockmw has the functions %q, want WithNamespace among them, and no method", got)
	}
}

func wantRows(t *testing.T, page string, names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Errorf("nothing is looked for in %s", page)
	}
	for _, name := range withoutRows(string(text), names) {
		t.Errorf("no table of %s has a row for %s", page, name)
	}
}

// withoutRows returns those of the names that stand in no row of a table.
func withoutRows(text string, names []string) []string {
	var rows strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			rows.WriteString(line)
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(rows.String(), "`"+name+"`") })
}

// exported returns the functions and variables of a package whose names begin so.
func exported(t *testing.T, pkg, begins string) (names []string) {
	t.Helper()
	for _, file := range parsed(t, pkg) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						for _, id := range v.Names {
							names = append(names, id.Name)
						}
					}
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, begins) })
}

// parsed returns the files of a package, without its tests.
func parsed(t *testing.T, pkg string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pkg, names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
