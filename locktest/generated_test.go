package locktest_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/locktest"
)

func TestGeneratedFindsWhatIsNotCurrent(t *testing.T) {
	for folder, want := range map[string]string{
		"testdata/current":  "",
		"testdata/stale":    "locktest: Generated: stale_lockgen.go:1:1: stale: the directives, or what they name, have changed; run lockgen",
		"testdata/mistaken": `locktest: Generated: mistaken.go:6:16: Pay has no parameter "idd"; did you mean "id"?`,
		".":                 "locktest: Generated: there is no directive //lockmw:lock in the package of this test",
		"..":                "locktest: Generated: go list: ",
	} {
		t.Run(folder, func(t *testing.T) {
			t.Chdir(folder)
			got := try(t, func(t testing.TB) { locktest.Generated(t) })
			if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	}
}

func TestGeneratedChecksPackagesThatAreNamed(t *testing.T) {
	locktest.Generated(t, "./testdata/current")
	const want = "locktest: Generated: there is no directive //lockmw:lock in . ../keyfunc"
	if got := try(t, func(t testing.TB) { locktest.Generated(t, ".", "../keyfunc") }); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestGeneratedChecksTheBuildOfTheTest(t *testing.T) {
	slow.Test(t)
	args := slices.Concat([]string{"test", "-short"}, lockgen.BuildFlags(), []string{"-tags=locktest_tagged", "./testdata/tagged"})
	out, err := exec.Command("go", args...).CombinedOutput()
	if want := `locktest: Generated: tagged.go:8:16: Pay has no parameter "idd"; did you mean "id"?`; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("go test -tags=locktest_tagged: %v\n%s\nwant %s", err, out, want)
	}
}
