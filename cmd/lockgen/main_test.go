package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
)

func TestProblemsAreExitCode1(t *testing.T) {
	t.Setenv("GOFLAGS", strings.Join(lockgen.BuildFlags(), " ")) // what this test is compiled from is there
	for _, tc := range []struct {
		name          string
		check         bool
		patterns      []string
		code          int
		out, problems string
	}{
		{"current", false, []string{"../../locktest/testdata/current"}, 0, "", ""},
		{"unwired", true, []string{"../../examples/annotated", "../../locktest/testdata/current"}, 1, "", "current.go:7:6: unwired: nothing but tests calls LockPay, so the locks of Pay are never taken\n"},
		{"checked", true, []string{"../../examples/annotated"}, 0, "", ""},
		{"by default all packages are checked", true, nil, 0, "", ""},
		{"mistaken", false, []string{"../../locktest/testdata/mistaken"}, 1, "", "mistaken.go:6:16: Pay has no parameter \"idd\"; did you mean \"id\"?\n"},
		{"nothing below", true, []string{"../../docs/..."}, 1, "", "lockgen: go list: no packages match ../../docs/...\n"},
		{"no Go", false, []string{"../.."}, 1, "", "; did you mean ../../...?\n"},
		{"a file", false, []string{"main.go"}, 1, "", "lockgen: main.go: name the package, such as . or ./shop: a file alone lacks what the others declare\n"},
		{"a flag that comes last", false, []string{"./...", "-check"}, 2, "", "lockgen: -check stands behind a package: flags go first\n"},
	} {
		var out, problems bytes.Buffer
		code := run(t.Context(), tc.check, tc.patterns, &out, &problems)
		if code != tc.code || out.String() != tc.out || !strings.Contains(problems.String(), tc.problems) || (tc.problems == "") != (problems.Len() == 0) {
			t.Errorf("%s: code %d, output %q, problems %q; want %d, %q, %q", tc.name, code, &out, &problems, tc.code, tc.out, tc.problems)
		}
	}
}
