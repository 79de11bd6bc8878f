// Package record keeps what the checks found. A check adds a Row; `make proof`
// has the rows written to a folder, from which the report is made. results.go and
// combos.go have what the matrices write besides, env.go the seed of a run, words.go
// how numbers are written.
package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FolderEnv names the environment variable with the folder to which rows are
// written. Without it they are only logged.
const FolderEnv = "PROOF_RESULTS"

// Row is one line of the report.
type Row struct {
	Check  int    `json:"check"`          // its number in the list of checks; 0: none
	Name   string `json:"name"`           // what was done
	Goal   string `json:"goal"`           // what is to be met
	Figure string `json:"figure"`         // what was seen
	Met    bool   `json:"met"`            //
	Note   string `json:"note,omitempty"` // the reason where it was not met, or what is worth knowing
}

// Add logs a row and writes it. A goal that was not met fails the test.
func Add(tb testing.TB, row Row) {
	tb.Helper()
	name := row.Name
	if row.Check > 0 {
		name = fmt.Sprintf("check %d, %s", row.Check, row.Name)
	}
	Save(tb, fmt.Sprintf("check-%02d-%s", row.Check, row.Name), row)
	if row.Met {
		tb.Logf("%s: %s (goal: %s)", name, row.Figure, row.Goal)
	} else {
		tb.Errorf("%s: %s, want %s; %s", name, row.Figure, row.Goal, row.Note)
	}
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// Save writes any value as JSON to the results folder, in place of the one that
// has the same name; it does nothing where no folder was named.
func Save(tb testing.TB, name string, value any) {
	tb.Helper()
	folder := os.Getenv(FolderEnv)
	if folder == "" {
		return
	}
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(folder, unfit.ReplaceAllString(strings.ToLower(name), "-")+".json")
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// Pick returns how many times a check does what it does: full of them for the
// report, few in the slice that every change runs (go test -short).
func Pick(few, full int) int {
	if testing.Short() {
		return few
	}
	return full
}

// Counts writes numbers by name, in the order of the names.
func Counts[N int | int64](counts map[string]N) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(list, ", ")
}
