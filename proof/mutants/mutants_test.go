package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestMutantsFitTheCode(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		files, err := m.overlay(root, t.TempDir())
		if err != nil {
			t.Error(err)
		}
		if len(files) == 0 {
			t.Errorf("%s changes nothing", m.name)
		}
	}
	stale := mutant{name: "stale", edits: []edit{{"lockmw/watchdog.go", "no such text", ""}}}
	if _, err := stale.overlay(root, t.TempDir()); err == nil || !strings.Contains(err.Error(), "stands 0 times") {
		t.Errorf("err = %v", err)
	}
}
