package rules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

// All rules look at all packages of testdata, and of the module within it that has old versions of other libraries: each package has what one of
// them must find, and what none must report.
func TestRules(t *testing.T) {
	var mu sync.Mutex
	found := make(map[string]int)
	all := &analysis.Analyzer{Name: "all", Doc: "all rules", Run: func(pass *analysis.Pass) (any, error) {
		isImported := !strings.HasPrefix(pass.Pkg.Path(), "example.com/")
		for _, rule := range rules.All {
			if isImported && len(rule.FactTypes) == 0 { // go vet asks for facts there, and for nothing else
				continue
			}
			of := *pass
			of.Analyzer, of.Report = rule, func(d analysis.Diagnostic) {
				if !isImported {
					mu.Lock()
					found[rule.Name]++
					mu.Unlock()
					pass.Report(d)
				}
			}
			if _, err := rule.Run(&of); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	for _, rule := range rules.All {
		for _, required := range rule.Requires {
			if !slices.Contains(all.Requires, required) {
				all.Requires = append(all.Requires, required)
			}
		}
		all.FactTypes = append(all.FactTypes, rule.FactTypes...)
	}
	for _, module := range []string{"testdata", "testdata/old"} {
		dir, err := filepath.Abs(module)
		if err != nil {
			t.Fatal(err)
		}
		download := exec.CommandContext(t.Context(), "go", "mod", "download") // analysistest itself asks no proxy
		download.Dir, download.Env = dir, append(os.Environ(), "GOWORK=off")
		if text, err := download.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		analysistest.Run(t, dir, all, "./...")
	}
	for _, rule := range rules.All {
		if found[rule.Name] < 2 {
			t.Errorf("%s has found %d mistakes", rule.Name, found[rule.Name])
		}
	}
}
