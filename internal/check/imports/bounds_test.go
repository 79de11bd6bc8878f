package imports

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A bound is a row of docs/decisions/modules.md: a module of ours, what it requires, and why
// no less will do.
var bound = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| (v?[0-9][^ ]*) \\| ([^|]+) \\|$")

// What our modules require, a service that imports one package of them gets at least. So
// nothing is raised without a reason that users can read.
func TestEveryRequirementHasAReason(t *testing.T) {
	const root = "../../.."
	page, err := os.ReadFile(root + "/docs/decisions/modules.md")
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[[2]string]string)
	for _, row := range bound.FindAllStringSubmatch(string(page), -1) {
		written[[2]string{row[1], row[2]}] = row[3]
	}
	for name, folder := range map[string]string{"root": ".", "lockprom": "lockprom", "lockotel": "lockotel"} {
		mod := readGoMod(t, filepath.Join(root, folder, "go.mod"))
		required := map[string]string{"go": mod.Go}
		for _, r := range mod.Require {
			if !r.Indirect && r.Path != "github.com/lockmw/kit" {
				required[r.Path] = r.Version
			}
		}
		for path, version := range required {
			row := [2]string{name, path}
			if got := written[row]; got != version {
				t.Errorf("go.mod of %s requires %s %s, docs/decisions/modules.md has a reason for %q", name, path, version, got)
			}
			delete(written, row)
		}
	}
	for row, version := range written {
		t.Errorf("docs/decisions/modules.md has a reason for %s %s, which the go.mod of %s does not require", row[1], version, row[0])
	}
}
