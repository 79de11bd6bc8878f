package readme

import (
	"go/ast"
	"go/parser"
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
	var fields []string
	for field := range reflect.TypeFor[lockmw.Policy]().Fields() {
		fields = append(fields, field.Name)
	}
	wantRows(t, "docs/policy.md", fields)

	var options []string
	for _, pkg := range []string{"httplock", "ginlock", "echolock", "echolock/v5", "grpclock", "connectlock"} {
		options = append(options, exported(t, pkg, "With")...)
	}
	wantRows(t, "docs/middlewares.md", options)

	ofLocker := slices.DeleteFunc(exported(t, "lockmw", "With"), func(name string) bool { return name == "WithLock" })
	wantRows(t, "docs/operating.md", ofLocker)

	refusals := slices.DeleteFunc(exported(t, "lockmw", "Err"), func(name string) bool {
		return slices.Contains([]string{"ErrMaxHold", "ErrReleased", "ErrResign"}, name) // what ends a context, or an election
	})
	wantRows(t, "docs/errors.md", refusals)
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
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pkg, files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
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
