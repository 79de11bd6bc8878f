package recipes

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
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

// text returns the document.
func text(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// inDocument returns the recipes by the names of their folders.
func inDocument(t *testing.T) map[string]recipe {
	t.Helper()
	all := make(map[string]recipe)
	for _, file := range printed.FindAllStringSubmatch(text(t), -1) {
		if all[file[1]] == nil {
			all[file[1]] = make(recipe)
		}
		all[file[1]][file[2]] = file[3] + "\n"
	}
	return all
}

// usages returns what the document says of the use of each recipe: the text behind its code, up to the
// next heading.
func usages(document string) map[string]string {
	all := make(map[string]string)
	for _, file := range printed.FindAllStringSubmatchIndex(document, -1) {
		usage := document[file[1]:]
		if next := heading.FindStringIndex(usage); next != nil {
			usage = usage[:next[0]]
		}
		all[document[file[2]:file[3]]] = usage
	}
	return all
}

var heading = regexp.MustCompile(`(?m)^#+ `)

// write puts a recipe into a folder, with what lies beside it for its readers: its test, and what
// was generated. A test that uses test aids of this repository is none for its readers, who cannot import them.
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
		if strings.Contains(string(text), `"github.com/lockmw/kit/internal/`) {
			continue
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

// A module is a new one, in which recipes are folders.
type module struct {
	dir     string
	program string // all programs in one, which is which by the name that it is called by
}

// newModule makes a module in a new folder. It has the versions of this one, and nothing is
// downloaded: go mod tidy would look for newer ones, and for the tests of what is required.
func newModule(t *testing.T) *module {
	t.Helper()
	dir := t.TempDir()
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
	return &module{dir: dir, program: filepath.Join(dir, "all", "program")}
}

// build makes one program of several: to link each takes a second of a core. Package main and its
// function are given another name for it, and nothing else is changed.
func (m *module) build(t *testing.T, all map[string]recipe, names []string) {
	t.Helper()
	var imports, calls strings.Builder
	for _, name := range names {
		code := all[name]["main.go"]
		code = strings.Replace(code, "\npackage main\n", "\npackage "+name+"\n", 1)
		code = strings.Replace(code, "\nfunc main() {\n", "\nfunc Main() {\n", 1)
		recipe{"main.go": code}.write(t, "none", filepath.Join(m.dir, "all", name))
		fmt.Fprintf(&imports, "import \"example.com/try/all/%s\"\n", name)
		fmt.Fprintf(&calls, "\t\t%q: %s.Main,\n", name, name)
	}
	main := "package main\n\nimport \"os\"\n" + imports.String() +
		"\nfunc main() {\n\tmap[string]func(){\n" + calls.String() + "\t}[os.Args[0]]()\n}\n"
	recipe{"main.go": main}.write(t, "none", filepath.Join(m.dir, "all"))
	if err := goCommand(t, m.dir, "build", "-ldflags=-w", "-o", m.program, "./all"); err != nil {
		t.Fatal(err)
	}
}

// goCommand runs the go command in a folder, with the race detector if these tests have it: what the
// recipes import is compiled so already.
func goCommand(t *testing.T, dir string, args ...string) error {
	t.Helper()
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = slices.Insert(slices.Clone(args), 1, "-race")
	}
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

// Every recipe is copied from the document into one new module, as a folder of it. All are vetted there,
// with their tests, so nothing is missing; where the document says "go test .", they run. Programs for
// many processes, and services, do what the document says. Each test of a recipe runs where it stands, too.
//
// With -short no more runs than three of them, each of which takes two seconds of a core to be compiled.
func TestRecipesDoInANewModuleWhatTheDocumentSays(t *testing.T) {
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
	serving, err := services(text(t))
	if err != nil {
		t.Fatal(err)
	}
	m := newModule(t)
	for name, r := range all {
		r.write(t, name, filepath.Join(m.dir, name))
	}
	if err := goCommand(t, m.dir, "vet", "./..."); err != nil {
		t.Fatal(err)
	}
	runs := func(name string) bool { return all[name]["main.go"] != "" }
	if testing.Short() {
		runs = func(name string) bool { return slices.Contains([]string{"envelope", "leader", "upload"}, name) }
	} else {
		m.test(t)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return !runs(name) })
	m.build(t, all, names)
	for _, p := range programs {
		if !runs(p.name) {
			continue
		}
		t.Run(strings.Join(append([]string{p.name}, p.args...), " "), func(t *testing.T) {
			t.Parallel()
			p.run(t, m)
		})
	}
	for name, s := range serving {
		if !runs(name) {
			continue
		}
		t.Run("serve "+name, func(t *testing.T) {
			t.Parallel()
			s.use(t, m, name)
		})
	}
}

// A service may have several of these jobs. The key of a run is the time for which it was planned, so two
// jobs of one prefix would keep each other from running.
func TestEachJobHasAPrefixOfItsOwn(t *testing.T) {
	job := regexp.MustCompile(`Prefix: "([^"]+)",.* MinHoldOnError: true`)
	users := make(map[string][]string)
	for name, r := range inDocument(t) {
		for _, policy := range job.FindAllStringSubmatch(r["main.go"], -1) {
			users[policy[1]] = append(users[policy[1]], name)
		}
	}
	if len(users) == 0 {
		t.Error("no recipe has a job")
	}
	for prefix, names := range users {
		if len(names) > 1 {
			t.Errorf("%q is the prefix of jobs in %q", prefix, names)
		}
	}
}

// test runs the tests of the recipes of which the document says so.
func (m *module) test(t *testing.T) {
	t.Helper()
	var tested []string
	for name, usage := range usages(text(t)) {
		if strings.Contains(usage, "go test .") {
			tested = append(tested, "./"+name)
		}
	}
	if len(tested) == 0 {
		t.Error("nothing is to be tested")
	}
	if err := goCommand(t, m.dir, append([]string{"test", "-vet=off", "-ldflags=-w"}, tested...)...); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotCompleteIsFound(t *testing.T) {
	dir := newModule(t).dir
	recipe{"main.go": "package main\n\nfunc main() { fmt.Println() }\n"}.write(t, "none", dir)
	if err := goCommand(t, dir, "vet", "."); err == nil || !strings.Contains(err.Error(), "undefined: fmt") {
		t.Errorf("err = %v", err)
	}
	recipe{"main.go": "package main\n\nfunc main() {}\n", "main_test.go": "package main\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { t.Error(\"wrong\") }\n"}.write(t, "none", dir)
	if err := goCommand(t, dir, "test", "."); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("err = %v", err)
	}
}
