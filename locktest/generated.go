package locktest

import (
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
)

// Generated fails the test if the decorators of a package (see cmd/lockgen) are not those
// that lockgen would write now, because a directive, or what it names, has changed since.
// Such code may still compile, and then takes the lock of a former key.
//
//	func TestLocksAreGenerated(t *testing.T) { locktest.Generated(t) }
//
// Generated checks the package of the test. With packages, such as "./...", it checks
// those, seen from the folder of the test. It uses the build flags of the test: go test
// -tags=x checks the files that are for x. The test also fails if there is no directive
// in them.
//
// Generated needs the go command and the source code. It does not check whether anybody
// calls the decorators; lockgen -check does.
func Generated(t testing.TB, packages ...string) {
	t.Helper()
	problems, decorators, err := lockgen.Check(t.Context(), lockgen.Request{Patterns: packages, Flags: lockgen.BuildFlags()}, false)
	switch {
	case err != nil:
		t.Fatalf("locktest: Generated: %v", err)
	case len(problems) == 0 && decorators == 0:
		where := "the package of this test"
		if len(packages) > 0 {
			where = strings.Join(packages, " ")
		}
		t.Errorf("locktest: Generated: there is no directive //lockmw:lock in %s", where)
	}
	for _, p := range problems {
		t.Errorf("locktest: Generated: %v", p)
	}
}
