package checks

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/proof/record"
)

// A listed package is what go list says of one.
type listed struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// testAids start goroutines only for the tests of others, whose goleak sees them.
var testAids = map[string]string{
	"internal/test/storetest":         "internal/redisstore",
	"examples/internal/demo/demotest": "examples/gin",
	"internal/test/failtest":          "grpclock",
	"internal/test/process":           "internal/test/redistest",
	"internal/test/rpctest":           "grpclock",
}

// Whoever starts goroutines has a test that sees them end.
func TestGoleakStandsWhereGoroutinesStart(t *testing.T) {
	packages := make(map[string]listed)
	cmd := exec.Command("go", "list", "-json", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[strings.TrimPrefix(p.ImportPath, "github.com/lockmw/kit/")] = p
	}
	start, guarded := 0, 0
	for name, p := range packages {
		if !p.any(t, p.GoFiles, startsGoroutine) {
			continue
		}
		start++
		guard := p
		if by, aid := testAids[name]; aid {
			guard = packages[by]
		}
		if guard.any(t, append(guard.TestGoFiles, guard.XTestGoFiles...), callsGoleak) {
			guarded++
			continue
		}
		t.Errorf("%s starts goroutines, and no TestMain looks whether they end", name)
	}
	record.Add(t, record.Row{
		Check: 23, Name: "goleak in every package", Goal: "every package whose code starts goroutines",
		Figure: fmt.Sprintf("%d of %d", guarded, start), Met: guarded == start && start > 10,
		Note: "test aids count by the package whose tests use them",
	})
}

// any reports whether find is true of a node in one of the files.
func (p listed) any(t *testing.T, files []string, find func(ast.Node) bool) (found bool) {
	t.Helper()
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			found = found || find(n)
			return !found
		})
	}
	return found
}

// startsGoroutine: a go statement, or a call of Go (sync.WaitGroup) or AfterFunc.
func startsGoroutine(n ast.Node) bool {
	if _, ok := n.(*ast.GoStmt); ok {
		return true
	}
	return calls(n, "Go", "AfterFunc")
}

// callsGoleak: goleak.VerifyTestMain, or redistest.Main, which calls it.
func callsGoleak(n ast.Node) bool { return calls(n, "VerifyTestMain", "Main") }

func calls(n ast.Node, names ...string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return slices.Contains(names, f.Sel.Name)
	case *ast.Ident:
		return slices.Contains(names, f.Name)
	}
	return false
}
