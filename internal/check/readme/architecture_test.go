package readme

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const architecture = root + "/docs/architecture.md"

// The document shows the picture that stands in the package comment: there it is read by those
// who change the code, here by those who want to know what there is.
func TestArchitectureShowsTheStatesOfAWaiter(t *testing.T) {
	comment := comments(t, "internal/waitqueue")["internal/waitqueue"]
	_, picture, _ := strings.Cut(comment, "A waiter is in one of seven states:\n\n")
	picture, _, ok := strings.Cut(picture, "\n\n")
	if !ok {
		t.Fatal("the comment of internal/waitqueue has no picture")
	}
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	if indented := "    " + strings.ReplaceAll(leftAligned(picture), "\n", "\n    "); !strings.Contains(string(text), indented) {
		t.Errorf("docs/architecture.md does not have the picture of internal/waitqueue, which is\n%s", indented)
	}
}

// A row of a table that names a method or function and its file.
var placed = regexp.MustCompile("(?m)^\\|(?: \\d+ \\|)? `([a-z]+)\\.(?:\\(\\*(\\w+)\\)\\.)?(\\w+)` \\| (\\S+\\.go) \\|")

// A file with its folder.
var pathed = regexp.MustCompile(`\b(?:[a-z0-9]+/)+\w+\.(?:go|lua)\b`)

func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	rows := placed.FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 {
		t.Fatal("docs/architecture.md names no function")
	}
	for _, row := range rows {
		if err := declares(filepath.Join(root, row[4]), row[1], row[2], row[3]); err != nil {
			t.Error(err)
		}
	}
	files := pathed.FindAllString(string(text), -1)
	if len(files) == 0 {
		t.Fatal("docs/architecture.md names no file")
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Errorf("docs/architecture.md names a file that is not there: %v", err)
		}
	}
}

// A check that finds nothing would pass, too.
func TestWhatIsNotThereIsFound(t *testing.T) {
	file := filepath.Join(root, "lockmw/lease.go")
	if err := declares(file, "lockmw", "Lease", "Key"); err != nil {
		t.Error(err)
	}
	if err := declares(file, "lockmw", "", "FromContext"); err != nil {
		t.Error(err)
	}
	for _, other := range [][3]string{{"lockmw", "Lease", "None"}, {"lockmw", "Locker", "Key"}, {"lockmw", "", "Key"}, {"other", "Lease", "Key"}} {
		if err := declares(file, other[0], other[1], other[2]); err == nil {
			t.Errorf("%q is found", other)
		}
	}
}

// declares returns nil if the file is of the package and declares the function, or the method of
// a pointer to the type.
func declares(name, pkg, typ, function string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if file.Name.Name == pkg {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == function && receiver(f) == typ {
				return nil
			}
		}
	}
	return fmt.Errorf("%s does not declare %s of %q in package %s", name, function, typ, pkg)
}

// receiver returns the type of which f is a method, by a pointer; empty: of none.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
		if name, ok := star.X.(*ast.Ident); ok {
			return name.Name
		}
	}
	return "?"
}
