package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with the body of one test file, which may use time, and returns its folder.
func module(t *testing.T, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.test/m\n\ngo 1.26.0\n",
		"m_test.go":    "package m\n\nimport (\"testing\"; \"time\"); var _ = time.Now\n\n" + tests,
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
		quick       bool
		args        []string
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
			name: "what took long stands at the end, without those whose time is that of their subtests",
			tests: `func TestA(t *testing.T) { t.Run("sub", func(*testing.T) { time.Sleep(1100 * time.Millisecond) }) }
				func TestB(t *testing.T) {}`,
			shows: []string{"the packages that took longest:\n ", "s  example.test/m\nthe tests that took longest:\n ", "s  example.test/m TestA/sub\ntests: 3 passed"},
			hides: []string{"s  example.test/m TestA\n"},
		},
		{
			name: "slow in a quick run",
			tests: `func slow(t *testing.T) { t.Helper(); if testing.Short() { t.Skip("slow: left out by -short") } }
				func TestA(t *testing.T) { t.Run("sub", func(t *testing.T) { slow(t) }) }
				func TestB(t *testing.T) { slow(t) }`,
			quick: true,
			shows: []string{"ok  \texample.test/m\t", "tests: 1 passed, 0 failed, 0 skipped, 2 slow ones left out"},
			hides: []string{"SKIP", "slow: left out"},
		},
		{
			name:  "slow in a run that is short for another reason",
			tests: `func TestB(t *testing.T) { if testing.Short() { t.Skip("slow: left out by -short") } }`,
			args:  []string{"-short"},
			fails: true,
			shows: []string{"example.test/m TestB\n", "tests: 0 passed, 0 failed, 1 skipped\n"},
		},
		{
			name: "skip in a quick run",
			tests: `func TestA(t *testing.T) { t.Skip("slow") }
				func TestB(t *testing.T) { t.Skip("slow: left out by -short, and no reason") }
				func TestC(t *testing.T) { t.Skip("no reason, slow: left out by -short") }
				func TestD(t *testing.T) { t.Log("no reason"); t.Skip("slow: left out by -short") }
				func TestE(t *testing.T) { t.SkipNow() }`,
			quick: true,
			fails: true,
			shows: []string{"m TestA\n", "m TestB\n", "m TestC\n", "m TestD\n", "m TestE\n", "tests: 0 passed, 0 failed, 5 skipped, 0 slow ones left out"},
		},
		{
			name:  "fail in a quick run",
			tests: `func TestA(t *testing.T) { if testing.Short() { t.Error("wrong") } }`,
			quick: true,
			fails: true,
			shows: []string{"wrong", "--- FAIL: TestA", "tests: 0 passed, 1 failed, 0 skipped, 0 slow ones left out"},
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
			name:  "what failed stands at the end, in short",
			tests: `func TestB(t *testing.T) { t.Error("wrong\nfurther"); for range 20 { t.Log("log") } }`,
			fails: true,
			shows: []string{"failed: example.test/m TestB\n    m_test.go:5: wrong\n    m_test.go:5: log\n", "log\n    …\n    m_test.go:5: log\n", "m_test.go:5: log\ntests: 0 passed, 1 failed, 0 skipped"},
		},
		{
			name:  "-run that names no test of any package",
			tests: `func TestA(t *testing.T) {}`,
			args:  []string{"-run", "TestB"},
			fails: true,
			shows: []string{"ok  \texample.test/m\t", "tests: 0 passed, 0 failed, 0 skipped\n", "no test has run"},
			hides: []string{"although"},
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
			err := runAll(t.Context(), options{quick: tc.quick, beside: 1}, []testRun{{module(t, tc.tests), append(tc.args, "-shuffle=on", "./...")}}, &out)
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

// A -run is often meant for some of many packages. Where it is meant for all, one without such a test fails the run.
func TestEachPackageHasToRunATest(t *testing.T) {
	dir := module(t, `func TestA(t *testing.T) {}`)
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "other_test.go"), []byte("package other\n\nimport \"testing\"\n\nfunc TestB(*testing.T) {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		each     bool
		run      string
		packages []string
		idle     string
	}{
		{false, "TestA", []string{".", "./other", "./none"}, ""},
		{true, "Test", []string{".", "./other"}, ""},
		{true, "TestA", []string{".", "./other"}, "in: example.test/m/other"},
		{true, "Test", []string{".", "./none"}, "in: example.test/m/none"},
	} {
		var out strings.Builder
		err := runAll(t.Context(), options{each: tc.each, beside: 1}, []testRun{{dir, append([]string{"-run", tc.run}, tc.packages...)}}, &out)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if (err != nil) != (tc.idle != "") || !strings.HasSuffix(said, tc.idle) {
			t.Errorf("each = %t, -run %s %v: error %q, want %q at its end, in:\n%s", tc.each, tc.run, tc.packages, said, tc.idle, &out)
		}
	}
}

func TestVerboseShowsEverythingOnce(t *testing.T) {
	var out strings.Builder
	dir := module(t, `func TestA(t *testing.T) { t.Error("wrong") }`)
	if err := runAll(t.Context(), options{beside: 1}, []testRun{{dir, []string{"-v", "./..."}}}, &out); err == nil {
		t.Error("a failed test passed")
	}
	for _, s := range []string{"=== RUN   TestA", "wrong", "--- FAIL: TestA"} {
		if got := strings.Count(out.String(), s); got != 1 {
			t.Errorf("%q is shown %d times, want once, in:\n%s", s, got, out.String())
		}
	}
}

// The helper by which tests of the root module are marked, and the report know
// each other.
func TestTheMarkOfTheRootModuleIsKnown(t *testing.T) {
	for _, quick := range []bool{false, true} {
		var out strings.Builder
		if err := runAll(t.Context(), options{quick: quick, beside: 1}, []testRun{{"../../internal/test/slow", []string{"-run", "^TestSlowOne$", "."}}}, &out); err != nil {
			t.Errorf("quick = %t: %v", quick, err)
		}
		want := map[bool]string{false: "tests: 1 passed, 0 failed, 0 skipped\n", true: "tests: 0 passed, 0 failed, 0 skipped, 1 slow ones left out\n"}[quick]
		if !strings.Contains(out.String(), want) {
			t.Errorf("quick = %t: %q is missing in:\n%s", quick, want, &out)
		}
	}
}
