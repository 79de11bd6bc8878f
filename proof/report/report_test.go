package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/golden"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/record"
)

func load(t *testing.T, folder string) *Results {
	t.Helper()
	r, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReportIsAsBefore(t *testing.T) {
	r := load(t, "testdata/results")
	golden.Check(t, "testdata/REPORT.md", string(r.Markdown("results")))
	for name, timeline := range r.Timelines {
		golden.Check(t, filepath.Join("testdata/results", name+".svg"), string(SVG(timeline)))
	}
	document, err := r.Figures([]byte("before\n" + opening + "old\n" + closing + "after\n"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/proof.md", string(document))
}

// What is checked in belongs together: run `go run ./report` if it does not.
func TestCheckedInReportIsOfTheCheckedInResults(t *testing.T) {
	r := load(t, "../results")
	compare := func(file string, want func(got []byte) []byte) {
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want(got)) {
			t.Errorf("%s is not what `go run ./report` writes", file)
		}
	}
	compare("../REPORT.md", func([]byte) []byte { return r.Markdown("results") })
	for name, timeline := range r.Timelines {
		compare(filepath.Join("../results", name+".svg"), func([]byte) []byte { return SVG(timeline) })
	}
	compare("../../docs/proof.md", func(document []byte) []byte {
		text, err := r.Figures(document)
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
}

func TestMissingResultsAreSaidToBeMissing(t *testing.T) {
	text := string(load(t, "testdata/nothing").Markdown("results"))
	if got := strings.Count(text, "| not run here |"); got != len(checks) {
		t.Errorf("%d checks are not run, want %d", got, len(checks))
	}
	for _, want := range []string{
		fmt.Sprintf("**0 of %d checks met.**", len(checks)), "`make proof` makes it", "`make mutants` makes it", "`make proof-rivals` makes it", "No run is noted here",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the report", want)
		}
	}
}

func TestCheckThatWasNotMetIsSeen(t *testing.T) {
	r := load(t, "testdata/results")
	text := string(r.Markdown("results"))
	for _, want := range []string{
		"**NOT MET: 3–4, 9.**", "199 of 200; free after 1.2 s at the latest | **NO** | one was late",
		"| late-clock | validity counted after the reply | **NO** |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the report", want)
		}
	}
	if headline := r.headline(); !strings.Contains(headline, "**not met: 3–4, 9**") {
		t.Errorf("docs/proof.md does not say what was not met:\n%s", headline)
	}
}

func TestOverlapOfALineIsSeen(t *testing.T) {
	r := &Results{Matrix: []record.Line{{Kind: "a fault", Injections: 50, Overlaps: 3}}}
	text := string(r.Markdown("results"))
	if want := "**3 overlaps**"; !strings.Contains(text, want) {
		t.Errorf("%q is not in the report", want)
	}
}

func TestReportPromisesNothing(t *testing.T) {
	for _, folder := range []string{"testdata/results", "testdata/nothing"} {
		r := load(t, folder)
		text := strings.ToLower(string(r.Markdown("results")) + r.headline())
		for _, never := range []string{"exactly once", "guaranteed mutual exclusion", "guarantee"} {
			if strings.Contains(text, never) {
				t.Errorf("the report of %s says %q", folder, never)
			}
		}
	}
}

func TestEveryEngineHasItsUsage(t *testing.T) {
	if ours != engines.Ours {
		t.Errorf("ours = %q, want %q", ours, engines.Ours)
	}
	for _, engine := range engines.All() {
		if name, _, _ := strings.Cut(engine, " "); usage[name] == "" {
			t.Errorf("nothing says how %s was used", engine)
		}
	}
}

func TestChecksAreNumberedInOrder(t *testing.T) {
	for i, c := range checks {
		if c.Number != i+1 {
			t.Errorf("check %d stands in place %d", c.Number, i+1)
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "–", 0: "0", 300: "1 µs", 1234567: "1.2 ms", 35 * time.Millisecond: "35 ms", 1249 * time.Millisecond: "1.2 s",
		20 * time.Second: "20 s", time.Minute: "1 min", 252 * time.Second: "4 min 12 s", 125 * time.Minute: "2 h 5 min",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%d) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := record.Thousands(n); got != want {
			t.Errorf("record.Thousands(%d) = %q, want %q", n, got, want)
		}
	}
	if got, want := numbers([]int{1, 2, 4, 6, 7, 8}), "1–2, 4, 6–8"; got != want {
		t.Errorf("numbers = %q, want %q", got, want)
	}
}
