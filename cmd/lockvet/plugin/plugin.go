// Package plugin makes the rules of lockvet a linter of golangci-lint, by its module plugin system. In .custom-gcl.yml:
//
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
package plugin

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

func init() { //nolint:gochecknoinits // golangci-lint wants it
	register.Plugin("lockvet", func(any) (register.LinterPlugin, error) { return linter{}, nil })
}

type linter struct{}

func (linter) BuildAnalyzers() ([]*analysis.Analyzer, error) { return rules.All, nil }

func (linter) GetLoadMode() string { return register.LoadModeTypesInfo }
