package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A mutant changes text that stands in today's code, and what comes of it compiles: a
// mistake that cannot be made any more tells nothing about the checks.
func TestMutantsFitTheCode(t *testing.T) {
	c := newCompiler(t)
	seen := make(map[string]bool)
	for _, m := range slices.Concat(mutants, native, tenures, tickets, answers) {
		if seen[m.name] {
			t.Errorf("two are called %q", m.name)
		}
		seen[m.name] = true
		if len(m.edits) == 0 || m.what == "" || m.tests == "" || m.in == "" || m.says == "" {
			t.Errorf("%s lacks a part", m.name)
		}
		if err := c.compile(m, t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

func TestMutantsThatDoNotFitAreAnError(t *testing.T) {
	c := newCompiler(t)
	const inGo, inLua = "internal/renew/watchdog.go", "internal/redisstore/lua/give.lua"
	for _, tc := range []struct {
		edit edit
		want string
	}{
		{edit{inGo, "no such text", ""}, "stands 0 times"},
		{edit{inGo, "return", "panic"}, "times in internal/renew/watchdog.go, want once"},
		{edit{inGo, "package renew\n", "package renew\n"}, "changes nothing"},
		{edit{inGo, "func New(", "var unset = used\n\nfunc New("}, "undefined: used"},
		{edit{inLua, "return redis.call('DEL', KEYS[1])", "return redis.call("}, "Error compiling script"},
	} {
		m := mutant{name: "stale", edits: []edit{tc.edit}}
		if err := c.compile(m, t.TempDir()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: err = %v, want one that says %q", tc.edit, err, tc.want)
		}
	}
}

// A compiler checks what mutants change, and runs nothing of it. Of Go it does what the
// compiler does first, which finds all its errors and takes a tenth of the time.
type compiler struct {
	root    string
	scripts *redis.Client // it compiles scripts
	files   *token.FileSet
	imports types.Importer
	sources map[string][]string // by package: its files
}

func newCompiler(t *testing.T) *compiler {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := &compiler{
		root: root, scripts: redistest.Shared(t).Client(t), files: token.NewFileSet(), sources: make(map[string][]string),
	}
	const format = "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles `\t`}}"
	list := exec.Command("go", "list", "-export", "-deps", "-f", format, "./lockmw")
	list.Dir, list.Stderr = root, os.Stderr
	said, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(said)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[fields[0]] = fields[1]
		for _, name := range fields[3:] {
			c.sources[fields[2]] = append(c.sources[fields[2]], filepath.Join(fields[2], name))
		}
	}
	c.imports = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

func (c *compiler) compile(m mutant, dir string) error {
	changed, err := m.overlay(c.root, dir)
	if err != nil {
		return err
	}
	for _, e := range m.edits {
		file := filepath.Join(c.root, filepath.FromSlash(e.file))
		if path.Ext(e.file) == ".go" {
			err = c.goPackage(filepath.Dir(file), changed)
		} else {
			err = c.script(changed[file])
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", m.name, e.file, err)
		}
	}
	return nil
}

// goPackage compiles the package in a folder; the changed files take the place of others.
func (c *compiler) goPackage(dir string, changed map[string]string) error {
	sources := c.sources[dir]
	if len(sources) == 0 {
		return fmt.Errorf("package lockmw does not need %s", dir)
	}
	parsed := make([]*ast.File, len(sources))
	for i, source := range sources {
		if to, ok := changed[source]; ok {
			source = to
		}
		var err error
		if parsed[i], err = parser.ParseFile(c.files, source, nil, parser.SkipObjectResolution); err != nil {
			return err
		}
	}
	_, err := (&types.Config{Importer: c.imports}).Check(dir, c.files, parsed, nil)
	return err
}

// script compiles a script, or a part of one.
func (c *compiler) script(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return c.scripts.ScriptLoad(context.Background(), string(text)).Err()
}
