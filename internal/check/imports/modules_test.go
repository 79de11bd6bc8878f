package imports

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A goMod is what these tests read of a go.mod.
type goMod struct {
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old struct{ Path string } }
}

func readGoMod(t *testing.T, file string) goMod {
	t.Helper()
	if _, err := os.ReadFile(file); err != nil { // go test keeps a result until a file changes that the test has read
		t.Fatal(err)
	}
	out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var mod goMod
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	return mod
}

// The modules that others install. Where one has a replace directive, go install
// MODULE@VERSION refuses it, and who requires it gets other code than its tests had: a
// go.work beside it has it built with what this checkout has.
func TestInstalledModulesReplaceNothing(t *testing.T) {
	const root = "../../.."
	beside, err := filepath.Glob(root + "/*/go.work")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(root + "/*/*/go.work")
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, file := range append(beside, deeper...) {
		modules = append(modules, filepath.ToSlash(strings.TrimPrefix(filepath.Dir(file), filepath.FromSlash(root+"/"))))
	}
	for _, module := range []string{"cmd/lockctl", "cmd/lockvet", "lockotel", "lockprom"} {
		if !slices.Contains(modules, module) {
			t.Errorf("%s has no go.work beside its go.mod", module)
		}
	}
	for _, module := range modules {
		for _, r := range readGoMod(t, filepath.Join(root, module, "go.mod")).Replace {
			t.Errorf("%s/go.mod replaces %s; go.work is the place for that", module, r.Old.Path)
		}
	}
}

// What only some modules need is required by none that a service with locks imports.
func TestTheRootRequiresNoMetricsAndNoCommandLine(t *testing.T) {
	for _, r := range readGoMod(t, "../../../go.mod").Require {
		for _, unwanted := range []string{"go.opentelemetry.io/", "github.com/prometheus/", "github.com/spf13/"} {
			if strings.HasPrefix(r.Path, unwanted) {
				t.Errorf("go.mod requires %s", r.Path)
			}
		}
	}
}
