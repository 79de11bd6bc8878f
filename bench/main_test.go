package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/bench/child"
	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/scenario"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) {
	child.IfChild() // the processes that tests start are this one again
	redistest.Main(m)
}

// tiny are the smallest sizes. A window is long enough for a turn on a machine
// that has much else to do.
func tiny() scenario.Sizes {
	s := scenario.Quick()
	s.Window, s.Warm = 250*time.Millisecond, 100*time.Millisecond
	s.Goroutines, s.Contenders, s.Requests = []int{2}, []int{3}, 2
	s.Waiters, s.Keys, s.Processes = nil, nil, nil
	s.Leases, s.LeaseTTL = []int{5}, 2*time.Second
	return s
}

func TestEveryLibraryCompletesAScenario(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := scenario.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows, err := b.Rounds(ctx, scenario.All(tiny()), regexp.MustCompile(`^(own keys, 2|new keys, 2|one key, 3, empty|(http|grpc)lock, own.*|held leases.*|a service.*|a free lock.*)$`), "", func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	if want := 3*len(library.Names()) + 2 + len(library.Rivals()) + len(library.Piped()) + 2*2 + 1 + 4; len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		f := r.Figures
		// Rivals bound their questions by as little as 20 ms, and a machine
		// that has much else to do exceeds that: such a row gets more time.
		for try := 0; try < 3 && f.Turns == 0; try++ {
			t.Logf("%s, %s: nothing was done; %s", r.Scenario.Name, r.Library, r.Err)
			r.Scenario.Window = 2 * time.Second
			seen, err := b.Measure(ctx, r.Scenario, r.Library, "")
			if err != nil {
				r.Err = err.Error()
				continue
			}
			f = scenario.FiguresOf([]scenario.Seen{seen})
		}
		if f.Turns == 0 {
			t.Errorf("%s, %s: no turns; %s", r.Scenario.Name, r.Library, r.Err)
		}
		local := r.Library == library.Ours && strings.HasPrefix(r.Scenario.Name, "one key") // for up to a second without a command
		if locks := !strings.HasPrefix(r.Library, "bare") && r.Scenario.Curve == "" && !local; locks && f.Turns > 10 && f.Commands <= 0 {
			t.Errorf("%s, %s: %v commands per turn", r.Scenario.Name, r.Library, f.Commands)
		}
	}
}

func TestARunWritesItsReport(t *testing.T) {
	out := t.TempDir()
	if err := run(t.Context(), []string{"-quick", "-d", "50ms", "-only", `^waiters: 1$`, "-out", out}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Goals", "make bench ARGS='-d=50ms \"-only=^waiters: 1\\$$\" -quick=true'", "(waiters-turns.svg)"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(string(page), out) {
		t.Error("the page names a folder of this machine")
	}
	if _, err := os.Stat(filepath.Join(out, "waiters-turns.svg")); err != nil {
		t.Error(err)
	}
}

// What the page says goes through a shell, make and another shell.
func TestTheCommandOfThePageRepeatsTheRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("bench:\n\t@printf '%s\\n' $(ARGS)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := []string{"-only", "^new keys|it's `a` \"b\" \\d$", "-out", "results/new-keys", "-rounds", "9"}
	o, err := parse(given)
	if err != nil {
		t.Fatal(err)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", o.command)
	sh.Dir = dir
	sh.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") }) // the tests may run under make
	said, err := sh.CombinedOutput()
	want := given[0] + "=" + given[1] + "\n" + given[2] + "=" + given[3] + "\n" + given[4] + "=" + given[5] + "\n"
	if err != nil || string(said) != want {
		t.Errorf("%s gives the bench %q, %v; want %q", o.command, said, err, want)
	}
}

func TestMistakesInFlagsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-only", "("}, {"extra"}, {"-rounds", "x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
	if err := run(t.Context(), []string{"-only", "no such scenario"}); err == nil {
		t.Error("a run of nothing succeeded")
	}
}

func TestFlagsWinOverSizes(t *testing.T) {
	o, err := parse([]string{"-quick", "-rounds", "7", "-d", "2s"})
	if err != nil {
		t.Fatal(err)
	}
	if o.sizes.Rounds != 7 || o.sizes.Window != 2*time.Second || o.kind == "" {
		t.Errorf("%+v", o)
	}
	o, err = parse([]string{"-answers", "-rounds", "7", "-d", "2s"})
	if err != nil {
		t.Fatal(err)
	}
	if !o.answers || o.cost.Rounds != 7 || o.cost.Window != 2*time.Second {
		t.Errorf("%+v", o)
	}
}
