package lockgen_test

import (
	"bytes"
	"flag"
	"os/exec"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
	"github.com/lockmw/kit/internal/test/slow"
)

// golden are packages with directives, and with what is generated of them. Their folder
// is none of ./..., but they are compiled into this test.
const golden = "./testdata/golden/..."

var update = flag.Bool("update", false, "write what is generated of the golden packages")

func TestGoldenPackagesAreWhatIsGenerated(t *testing.T) {
	run := lockgen.Request{Patterns: []string{golden}, Flags: lockgen.BuildFlags()}
	if *update {
		done, err := lockgen.Generate(t.Context(), run)
		t.Logf("written: %q, %v, %v, %v", done.Changed, done.Problems, done.Notes, err)
	}
	problems, decorators, err := lockgen.Check(t.Context(), run, false)
	if err != nil || decorators < 15 {
		t.Fatalf("%d decorators, %v", decorators, err)
	}
	for _, p := range problems {
		t.Errorf("%v\n\t(go test ./internal/lockgen -update writes it)", p)
	}
}

func TestGoldenPackagesPassVet(t *testing.T) {
	slow.Test(t)
	cmd := exec.Command("go", append([]string{"vet"}, append(lockgen.BuildFlags(), golden)...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, bytes.TrimSpace(out))
	}
}
