package recipes

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root     = "../.."
	document = root + "/docs/recipes.md"
)

// A recipe is what the document prints for one folder, by the names of its files.
type recipe map[string]string

// printed is a file in the document: its name in bold, an empty line, and its code.
var printed = regexp.MustCompile("(?s)\n\\*\\*([a-z]+)/([a-z_]+\\.go)\\*\\*\n\n```go\n(.*?)\n```\n")

// inDocument returns the recipes by the names of their folders.
func inDocument(t *testing.T) map[string]recipe {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]recipe)
	for _, file := range printed.FindAllStringSubmatch(string(text), -1) {
		if all[file[1]] == nil {
			all[file[1]] = make(recipe)
		}
		all[file[1]][file[2]] = file[3] + "\n"
	}
	return all
}

// write puts a recipe into a folder, with what lies beside it for its readers: its test, and what
// was generated.
func (r recipe) write(t *testing.T, name, dir string) {
	t.Helper()
	beside, err := filepath.Glob(name + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := maps.Clone(r)
	for _, file := range beside {
		base := filepath.Base(file)
		if _, ok := files[base]; ok || !strings.HasSuffix(base, "_test.go") && !strings.HasSuffix(base, ".pb.gw.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[base] = string(text)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for base, text := range files {
		if err := os.WriteFile(filepath.Join(dir, base), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newModule makes a module in a new folder. It has the versions of this one, and nothing is
// downloaded: go mod tidy would look for newer ones, and for the tests of what is required.
func newModule(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	kit, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(mod), "module github.com/lockmw/kit/examples/recipes", "module example.com/try", 1)
	text = strings.Replace(text, "=> "+root+"/", "=> "+kit, 1)
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": text, "go.sum": string(sum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// goCommand runs the go command in a folder.
func goCommand(t *testing.T, dir string, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off") // GOFLAGS as here, so that little is compiled anew
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &said)
	}
	return nil
}

// All recipes are vetted in one module, whose folders they are.
func TestRecipesAreCompleteInANewModule(t *testing.T) {
	all := inDocument(t)
	folders, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for _, file := range folders {
		want[filepath.Dir(file)] = true
	}
	if got, want := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Fatalf("the document has the recipes\n%q, want\n%q", got, want)
	}
	dir := newModule(t)
	for name, r := range all {
		r.write(t, name, filepath.Join(dir, name))
	}
	if err := goCommand(t, dir, "vet", "./..."); err != nil {
		t.Error(err)
	}
}

// The tests of each recipe run in a module of its own. With -short it is one of them: where they
// stand, all run.
func TestRecipesRunTheirTestsInANewModule(t *testing.T) {
	all := inDocument(t)
	names := slices.Sorted(maps.Keys(all))
	if testing.Short() {
		names = []string{"handlertest"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newModule(t)
			all[name].write(t, name, dir)
			if err := goCommand(t, dir, "test", "-vet=off", "."); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatIsNotCompleteIsFound(t *testing.T) {
	dir := newModule(t)
	recipe{"main.go": "package main\n\nfunc main() { fmt.Println() }\n"}.write(t, "none", dir)
	if err := goCommand(t, dir, "vet", "."); err == nil || !strings.Contains(err.Error(), "undefined: fmt") {
		t.Errorf("err = %v", err)
	}
	recipe{"main.go": "package main\n\nfunc main() {}\n", "main_test.go": "package main\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { t.Error(\"wrong\") }\n"}.write(t, "none", dir)
	if err := goCommand(t, dir, "test", "."); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("err = %v", err)
	}
}
