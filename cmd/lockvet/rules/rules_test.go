package rules_test

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

// All rules look at all packages of testdata: each has what one of them must find, and what none must report.
func TestRules(t *testing.T) {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	all := &analysis.Analyzer{Name: "all", Doc: "all rules", Run: func(pass *analysis.Pass) (any, error) {
		for _, rule := range rules.All {
			of := *pass
			of.Analyzer, of.Report = rule, func(d analysis.Diagnostic) {
				found[rule.Name]++
				pass.Report(d)
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
	}
	analysistest.Run(t, dir, all, "./...")
	for _, rule := range rules.All {
		if found[rule.Name] < 2 {
			t.Errorf("%s has found %d mistakes", rule.Name, found[rule.Name])
		}
	}
}
