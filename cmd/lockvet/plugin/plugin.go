// Package plugin makes the rules of lockvet a linter of golangci-lint, by its module plugin system. Write in .custom-gcl.yml:
//
//	version: v2.12.0 # of golangci-lint
//	plugins:
//	  - module: github.com/lockmw/kit/cmd/lockvet
//	    import: github.com/lockmw/kit/cmd/lockvet/plugin
//	    version: latest
//
// and in .golangci.yml:
//
//	linters:
//	  enable: [lockvet]
//	  settings:
//	    custom:
//	      lockvet:
//	        type: module
//	        description: mistakes in the use of locks
//	        settings:
//	          disable: [lockgo] # rules to leave out; without this line, none
package plugin

import (
	"fmt"
	"slices"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

func init() { //nolint:gochecknoinits // golangci-lint wants it
	register.Plugin("lockvet", newLinter)
}

type linter struct {
	Disable []string `json:"disable"`
}

func newLinter(settings any) (register.LinterPlugin, error) {
	return register.DecodeSettings[linter](settings)
}

func (l linter) BuildAnalyzers() (enabled []*analysis.Analyzer, err error) {
	for _, name := range l.Disable {
		if !slices.ContainsFunc(rules.All, func(a *analysis.Analyzer) bool { return a.Name == name }) {
			return nil, fmt.Errorf("lockvet has no rule %q to disable", name)
		}
	}
	for _, rule := range rules.All {
		if !slices.Contains(l.Disable, rule.Name) {
			enabled = append(enabled, rule)
		}
	}
	return enabled, nil
}

func (linter) GetLoadMode() string { return register.LoadModeTypesInfo }
