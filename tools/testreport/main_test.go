package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with the body of one test file and returns its folder.
func module(t *testing.T, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.test/m\n\ngo 1.26.0\n",
		"m_test.go":    "package m\n\nimport \"testing\"\n\n" + tests,
		"none/none.go": "package none\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReportOfARun(t *testing.T) {
	for _, tc := range []struct {
		name, tests string
		fails       bool
		shows       []string
		hides       []string
	}{
		{
			name:  "pass",
			tests: `func TestA(t *testing.T) { t.Log("hidden"); t.Run("sub", func(*testing.T) {}) }`,
			shows: []string{"ok  \texample.test/m\t", "?   \texample.test/m/none\t[no test files]", "tests: 2 passed, 0 failed, 0 skipped"},
			hides: []string{"hidden", "=== RUN", "--- PASS", "\nPASS", "-test.shuffle"},
		},
		{
			name: "skip",
			tests: `func TestA(t *testing.T) {}
				func TestB(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Skip("no reason") }) }`,
			fails: true,
			shows: []string{"ok  \texample.test/m\t", "example.test/m TestB/sub\n", "no reason", "tests: 2 passed, 0 failed, 1 skipped"},
		},
		{
			name: "fail",
			tests: `func TestA(t *testing.T) { t.Log("hidden") }
				func TestB(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("wrong") }) }`,
			fails: true,
			shows: []string{"wrong", "--- FAIL: TestB", "--- FAIL: TestB/sub", "FAIL\texample.test/m\t", "-test.shuffle", "tests: 1 passed, 2 failed, 0 skipped"},
			hides: []string{"hidden"},
		},
		{
			name:  "panic",
			tests: `func TestA(t *testing.T) { t.Log("before"); panic("ouch") }`,
			fails: true,
			shows: []string{"before", "panic: ouch", "m_test.go:5", "FAIL\texample.test/m\t"},
		},
		{
			name:  "does not build",
			tests: `func TestA(t *testing.T) { undefined() }`,
			fails: true,
			shows: []string{"undefined: undefined", "FAIL\texample.test/m [build failed]"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			err := run(module(t, tc.tests), []string{"-shuffle=on", "./..."}, &out, &out)
			if got := err != nil; got != tc.fails {
				t.Errorf("failed = %t (%v), want %t", got, err, tc.fails)
			}
			text := out.String()
			if err != nil {
				text += err.Error()
			}
			for _, s := range tc.shows {
				if !strings.Contains(text, s) {
					t.Errorf("%q is missing in:\n%s", s, text)
				}
			}
			for _, s := range tc.hides {
				if strings.Contains(text, s) {
					t.Errorf("%q is shown in:\n%s", s, text)
				}
			}
		})
	}
}

func TestVerboseShowsEverythingOnce(t *testing.T) {
	var out strings.Builder
	dir := module(t, `func TestA(t *testing.T) { t.Error("wrong") }`)
	if err := run(dir, []string{"-v", "./..."}, &out, &out); err == nil {
		t.Error("a failed test passed")
	}
	for _, s := range []string{"=== RUN   TestA", "wrong", "--- FAIL: TestA"} {
		if got := strings.Count(out.String(), s); got != 1 {
			t.Errorf("%q is shown %d times, want once, in:\n%s", s, got, out.String())
		}
	}
}
