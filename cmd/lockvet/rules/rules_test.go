package rules_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

// Each rule has a package with what it must find, and what it must not.
func TestRules(t *testing.T) {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules.All {
		t.Run(rule.Name, func(t *testing.T) {
			results := analysistest.Run(t, dir, rule, "./"+strings.TrimPrefix(rule.Name, "lock"))
			found := 0
			for _, result := range results {
				found += len(result.Diagnostics)
			}
			if found == 0 {
				t.Error("it finds nothing")
			}
		})
	}
}
