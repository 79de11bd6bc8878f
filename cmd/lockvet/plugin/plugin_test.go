package plugin

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

// What golangci-lint does with a plugin of its module plugin system.
func TestTheLinterHasAllRulesButThoseThatAreDisabled(t *testing.T) {
	newPlugin, err := register.GetPlugin("lockvet")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		settings any
		rules    int // -1: an error
	}{
		{nil, len(rules.All)},
		{map[string]any{"disable": []string{"lockgo", "lockctx"}}, len(rules.All) - 2},
		{map[string]any{"disable": []string{"lockg"}}, -1},
	} {
		linter, err := newPlugin(tc.settings)
		if err != nil {
			t.Fatalf("%v: %v", tc.settings, err)
		}
		enabled, err := linter.BuildAnalyzers()
		if tc.rules < 0 {
			if err == nil {
				t.Errorf("%v: no error", tc.settings)
			}
			continue
		}
		if err != nil || len(enabled) != tc.rules || linter.GetLoadMode() != register.LoadModeTypesInfo {
			t.Errorf("%v: %d rules, %v", tc.settings, len(enabled), err)
		}
	}
	if _, err := newPlugin(map[string]any{"enable": []string{"lockgo"}}); err == nil {
		t.Error("a setting that is not known is no error")
	}
}
