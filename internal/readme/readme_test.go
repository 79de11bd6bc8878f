// Package readme checks that the code in README.md is code that compiles.
package readme

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// A block is one fenced ```go block.
type block struct {
	line int
	code string
}

func blocks(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found []block
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case open == nil && line == "```go":
			open = &block{line: i + 2}
		case open != nil && line == "```":
			found, open = append(found, *open), nil
		case open != nil:
			open.code += line + "\n"
		}
	}
	if len(found) < 3 {
		t.Fatalf("only %d Go blocks found", len(found))
	}
	return found
}

func (b block) program() bool { return strings.HasPrefix(b.code, "package ") }

func TestProgramsInTheReadmeCompile(t *testing.T) {
	for _, b := range blocks(t) {
		if !b.program() {
			continue
		}
		formatted, err := format.Source([]byte(b.code))
		if err != nil {
			t.Errorf("README.md:%d: %v", b.line, err)
			continue
		}
		if string(formatted) != b.code {
			t.Errorf("README.md:%d: not formatted by gofmt", b.line)
		}
		// The overlay has the go command see the program in a folder of the
		// module that does not exist.
		dir := t.TempDir()
		file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
		if err := os.WriteFile(file, []byte(b.code), 0o600); err != nil {
			t.Fatal(err)
		}
		abs, err := filepath.Abs(root)
		if err != nil {
			t.Fatal(err)
		}
		pkg := fmt.Sprintf("readme-line-%d", b.line)
		replace := map[string]map[string]string{"Replace": {filepath.Join(abs, "examples", pkg, "main.go"): file}}
		spec, err := json.Marshal(replace)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(overlay, spec, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-overlay", overlay, "-o", os.DevNull, "./examples/"+pkg)
		cmd.Dir = abs
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("README.md:%d: %v\n%s", b.line, err, out)
		}
	}
}

func TestFragmentsInTheReadmeAreTakenFromCode(t *testing.T) {
	sources := goSources(t)
	for _, b := range blocks(t) {
		if b.program() {
			continue
		}
		fragment := squeeze([]byte(b.code))
		found := false
		for _, source := range sources {
			found = found || bytes.Contains(source, fragment)
		}
		if !found {
			t.Errorf("README.md:%d: no Go file of the module holds this fragment:\n%s", b.line, b.code)
		}
	}
}

func goSources(t *testing.T) [][]byte {
	t.Helper()
	var sources [][]byte
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		sources = append(sources, squeeze(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// squeeze forgets how lines are indented.
func squeeze(code []byte) []byte {
	var out []byte
	for line := range bytes.Lines(code) {
		out = append(append(out, bytes.TrimSpace(line)...), '\n')
	}
	return out
}
