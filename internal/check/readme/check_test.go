package readme

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
)

// preamble is the folder with what a snippet may use without saying where it
// comes from.
const preamble = "testdata/preamble"

// packages are what a snippet may import by using its name. What a whole file or
// the preamble imports comes on top.
var packages = []string{
	"context",
	"database/sql",
	"errors",
	"fmt",
	"log",
	"log/slog",
	"net/http",
	"strings",
	"testing",
	"time",
	"connectrpc.com/connect",
	"github.com/gin-gonic/gin",
	"github.com/labstack/echo/v4",
	"github.com/redis/go-redis/v9",
	"google.golang.org/grpc",
	module + "connectlock",
	module + "echolock",
	module + "fence",
	module + "funclock",
	module + "ginlock",
	module + "grpclock",
	module + "httplock",
	module + "keyfunc",
	module + "lockclient",
	module + "lockclient/connectretry",
	module + "lockclient/grpcretry",
	module + "lockadmin",
	module + "lockmw",
	module + "locktest",
}

// later are packages that have the name of one of those: a later version of it. What
// their own comments name are they.
var later = []string{
	"github.com/labstack/echo/v5",
	module + "echolock/v5",
}

// A checker compiles snippets as far as go/types does: without making code.
type checker struct {
	fset     *token.FileSet
	importer types.Importer
	names    map[string]string // of packages; import paths
	later    map[string]string // the same for snippets of later
}

// newChecker asks the go command once for the packages that snippets use, as they
// were compiled for this test: with other flags it would compile them anew.
func newChecker(t *testing.T, more ...snippet) *checker {
	t.Helper()
	needed := slices.Concat(packages, later)
	for _, s := range more {
		if s.program() {
			needed = append(needed, imports(t, s.name, s.code)...)
		}
	}
	files, err := filepath.Glob(filepath.Join(preamble, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no preamble: %v", err)
	}
	for _, file := range files {
		needed = append(needed, imports(t, file, nil)...)
	}

	exports := make(map[string]string)
	c := &checker{fset: token.NewFileSet(), names: make(map[string]string), later: make(map[string]string)}
	list := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Name}} {{.Export}}"}
	list = append(append(list, lockgen.BuildFlags()...), needed...)
	for line := range strings.Lines(goCommand(t, list...)) {
		if f := strings.Fields(line); len(f) == 3 {
			exports[f[0]] = f[2]
			switch {
			case slices.Contains(packages, f[0]):
				c.names[f[1]] = f[0]
			case slices.Contains(later, f[0]):
				c.later[f[1]] = f[0]
			}
		}
	}
	if len(c.names) != len(packages) || len(c.later) != len(later) {
		t.Fatalf("%d and %d packages have the names %v and %v", len(packages), len(later), c.names, c.later)
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("it is not among the packages that snippets use")
		}
		return os.Open(exports[path])
	})
	return c
}

// goCommand returns what the go command prints, in the root of the module.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v: %s", args[0], err, &stderr)
	}
	return string(out)
}

// imports returns what a file imports; nothing of one that cannot be parsed.
func imports(t *testing.T, name string, code any) (paths []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, code, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// check returns what is wrong with a snippet.
func (c *checker) check(s snippet) error {
	file, err := c.file(s)
	if err != nil {
		return err
	}
	files := []*ast.File{file}
	if !s.program() {
		around, err := c.preamble(s)
		if err != nil {
			return err
		}
		files = append(files, around...)
	}
	var found []error
	config := types.Config{Importer: c.importer, Error: func(err error) { found = append(found, err) }}
	_, _ = config.Check("snippet", c.fset, files, nil) // its error is the first of found
	return errors.Join(found...)
}

// file makes a file of a snippet that is none: of declarations, or of statements,
// with the imports of the packages that it names.
func (c *checker) file(s snippet) (*ast.File, error) {
	if s.program() {
		return c.parse("", s, "")
	}
	const file, function = "package snippet;", "func _() error {"
	head, tail := "", ""
	parsed, err := c.parse(file, s, "")
	if err != nil {
		head, tail = function, "return nil }"
		parsed, err = c.parse(file+head, s, tail)
	}
	if err != nil {
		return nil, err
	}
	return c.parse(file+c.imported(parsed, s)+head, s, used(parsed)+tail)
}

// parse parses a snippet between a line in front of it and one behind it. Positions
// in it are those in the document.
func (c *checker) parse(head string, s snippet, tail string) (*ast.File, error) {
	code := fmt.Sprintf("%s\n//line %s:%d\n%s\n%s\n", head, s.name, s.line, s.code, tail)
	if s.program() {
		code = fmt.Sprintf("//line %s:%d\n%s", s.name, s.line, s.code)
	}
	return parser.ParseFile(c.fset, s.name, code, 0)
}

// isLater reports whether a snippet is of a package of later.
func (s snippet) isLater() bool {
	return slices.ContainsFunc(later, func(pkg string) bool { return strings.HasPrefix(module+s.name, pkg) })
}

// imported returns the imports of the packages that a file names, which s stands in.
func (c *checker) imported(file *ast.File, s snippet) string {
	named := make(map[string]bool)
	for _, name := range file.Unresolved {
		path := c.names[name.Name]
		if other := c.later[name.Name]; other != "" && s.isLater() {
			path = other
		}
		if path != "" {
			named[fmt.Sprintf("import %q;", path)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(named)), "")
}

// used returns statements that use what those of a snippet declare: the code that
// would stand behind the snippet does.
func used(file *ast.File) string {
	var uses strings.Builder
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "_" {
			continue
		}
		for _, statement := range f.Body.List {
			assign, ok := statement.(*ast.AssignStmt)
			if !ok || assign.Tok != token.DEFINE {
				continue
			}
			for _, name := range assign.Lhs {
				if id, ok := name.(*ast.Ident); ok && id.Name != "_" {
					fmt.Fprintf(&uses, "_ = %s; ", id.Name)
				}
			}
		}
	}
	return uses.String()
}

// preamble parses what the snippet may use without saying where it comes from. The
// handler is one of the framework that the snippet is about.
func (c *checker) preamble(s snippet) ([]*ast.File, error) {
	pay := "pay_http.go"
	switch {
	case strings.Contains(s.code, "ginlock."):
		pay = "pay_gin.go"
	case s.isLater():
		pay = "pay_echo5.go"
	case strings.Contains(s.code, "echolock."):
		pay = "pay_echo.go"
	}
	var files []*ast.File
	for _, name := range []string{"preamble.go", pay} {
		file, err := parser.ParseFile(c.fset, filepath.Join(preamble, name), nil, 0)
		if err != nil {
			return nil, err
		}
		file.Name.Name = "snippet"
		files = append(files, file)
	}
	return files, nil
}
