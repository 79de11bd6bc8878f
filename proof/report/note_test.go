package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmw/kit/proof/record"
)

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func TestNoteSaysWhatFiguresDependOn(t *testing.T) {
	t.Setenv(record.SeedEnv, "42")
	folder := filepath.Join(t.TempDir(), "results")
	if err := run([]string{"-results", folder, "-note", "proof"}); err != nil {
		t.Fatal(err)
	}
	runs := load(t, folder).Runs
	if len(runs) != 1 {
		t.Fatalf("%d runs are noted, want 1", len(runs))
	}
	note := runs[0]
	if note.Command != "proof" || note.Seed != 42 || note.Go == "" || note.Cores == 0 || note.Date.IsZero() || note.Took != 0 {
		t.Errorf("the note is %+v", note)
	}
	if version := note.Versions["github.com/redis/go-redis/v9"]; !strings.HasPrefix(version, "v9.") {
		t.Errorf("go-redis is of version %q", version)
	}
}

// A goal that is not met makes the command fail; it shall be in the report.
func TestReportIsWrittenAlsoIfTheCommandFails(t *testing.T) {
	folder := t.TempDir()
	out := filepath.Join(folder, "REPORT.md")
	results := filepath.Join(folder, "results")
	err := run([]string{
		"-results", results, "-out", out, "-figures", "", "-note", "mutants",
		"sh", "-c", `echo "[{\"name\":\"seed $PROOF_SEED\",\"took\":5}]" >"$PROOF_RESULTS/mutants.json"; exit 3`,
	})
	if err == nil {
		t.Error("the command's failure is not told")
	}
	text, _ := os.ReadFile(out)
	r := load(t, results)
	if len(r.Runs) != 1 || len(r.Mutants) != 1 {
		t.Fatalf("noted are %+v and %+v", r.Runs, r.Mutants)
	}
	if got, want := string(text), string(r.Markdown("results")); got != want || !strings.Contains(got, "**NO**") || !strings.Contains(got, "**FAILED**: exit status 3") {
		t.Errorf("the report is %s", got)
	}
}

// What failed in a run and was run again stands beside it, and in the tally only
// while it fails.
func TestAPartOfARunIsRunAgain(t *testing.T) {
	folder := t.TempDir()
	out := filepath.Join(folder, "REPORT.md")
	results := filepath.Join(folder, "results")
	report := func(how, end string) error {
		return run([]string{
			"-results", results, "-out", out, "-figures", "", how, "mutants",
			"sh", "-c", `echo "[{\"name\":\"a\",\"took\":5}]" >>"$PROOF_RESULTS/x.txt"; exit ` + end,
		})
	}
	for _, step := range []struct {
		how, end string
		broken   int
		says     string
	}{
		{"-note", "3", 1, "**FAILED**: exit status 3 |"},
		{"-again", "4", 1, "**FAILED**: exit status 4 |"},
		{"-again", "0", 0, "exit 0`: passed |"},
	} {
		if err := report(step.how, step.end); (err == nil) != (step.end == "0") {
			t.Errorf("%s %s: err = %v", step.how, step.end, err)
		}
		if got := load(t, results).broken(); len(got) != step.broken {
			t.Errorf("%s %s: broken are %v", step.how, step.end, got)
		}
		if text, _ := os.ReadFile(out); !strings.Contains(string(text), step.says) {
			t.Errorf("%s %s: the report does not say %q", step.how, step.end, step.says)
		}
	}
	if err := run([]string{"-results", results, "-out", out, "-figures", "", "-again", "mutants"}); err == nil {
		t.Error("there is nothing to be run again, and no error")
	}
	if text, _ := os.ReadFile(filepath.Join(results, "x.txt")); strings.Count(string(text), "took") != 3 {
		t.Errorf("what was there before was removed: %s", text)
	}
}

func TestRunRemovesWhatTheOneBeforeItLeft(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"check-04-old.json", "check-24-soak.json", "matrix.json", "rivals.json", "run-soak.json"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := clean(folder, "proof"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"check-04-old.json": false, "matrix.json": false, "check-24-soak.json": true, "rivals.json": true, "run-soak.json": true,
	} {
		if got := exists(filepath.Join(folder, name)); got != want {
			t.Errorf("%s is there: %v, want %v", name, got, want)
		}
	}
}

func TestManyOverlapsHaveOneLabel(t *testing.T) {
	timeline := load(t, "testdata/results").Timelines["timeline-rueidislock"]
	var many record.Timeline
	for range 5 {
		many.Holds = append(many.Holds, timeline.Holds...)
	}
	many.From, many.To = timeline.From, timeline.To
	if got := strings.Count(string(SVG(many)), ">overlap "); got != 1 {
		t.Errorf("%d labels, want 1", got)
	}
}
