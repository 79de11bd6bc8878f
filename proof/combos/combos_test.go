package combos

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/record"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// lanes says how many children run at a time for each group.
func lanes() map[string]int {
	if testing.Short() {
		return map[string]int{Single: 2, Cluster: 1}
	}
	return map[string]int{Single: 6, Cluster: 3, Sentinel: 2}
}

// tally is what all rounds saw.
type tally struct {
	t     *testing.T
	began time.Time

	mu    sync.Mutex
	saw   record.Combos
	names map[string]struct{}
	lines map[string]*record.ComboLine
	rules map[string]int // rounds
}

func newTally(t *testing.T) *tally {
	t.Helper()
	return &tally{
		t: t, began: time.Now(), names: make(map[string]struct{}), lines: make(map[string]*record.ComboLine), rules: make(map[string]int),
		saw: record.Combos{Values: make(map[string]map[string]int), Worst: make(map[string]time.Duration), Known: make(map[string]int)},
	}
}

// add adds one round, and logs what must not be in it.
func (a *tally) add(r Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := r.Combination
	if r.Void {
		a.t.Logf("not judged, because a master was replaced that nobody had struck: %s", c.Token())
		return
	}
	a.saw.Rounds++
	a.saw.Injections += r.Injections
	a.names[c.Name()] = struct{}{}
	name := strings.TrimSpace(c.Fault + ", " + c.Length)
	name = strings.TrimSuffix(name, ",")
	line := a.lines[name]
	if line == nil {
		line = &record.ComboLine{Fault: name}
		a.lines[name] = line
	}
	line.Rounds++
	line.Injections += r.Injections
	line.Granted += r.Calls[granted]
	line.Open += r.Calls[ranOpen]
	for outcome, n := range r.Calls {
		if outcome != granted && outcome != ranOpen {
			line.Refused += n
		}
	}
	for dimension, value := range c.Values() {
		if a.saw.Values[dimension] == nil {
			a.saw.Values[dimension] = make(map[string]int)
		}
		a.saw.Values[dimension][value]++
	}
	for what, d := range r.Worst {
		a.saw.Worst[what] = max(a.saw.Worst[what], d)
	}
	for _, what := range slices.Compact(slices.Sorted(slices.Values(r.Known))) {
		a.saw.Known[what]++
	}
	if len(r.Violations) > 0 {
		line.Found++
	}
	for _, v := range r.Violations {
		a.rules[v.Rule]++
		a.saw.Found = append(a.saw.Found, record.ComboFound{Rule: v.Rule, Text: v.Text, Token: c.Token(), Combination: c.Name()})
		a.t.Errorf("%s after %v, round %d: %s (%d times; machine late by %v)\n\t%s=%s\n\t%s", v.Rule, time.Since(a.began).Round(100*time.Millisecond),
			a.saw.Rounds, v.Text, v.Times, r.Late.Round(time.Millisecond), RoundEnv, c.Token(), c.Name())
	}
}

// enough says that as many injections are done as are wanted.
func (a *tally) enough(wanted int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saw.Injections >= wanted
}

// report writes what was seen.
func (a *tally) report(s uint64) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saw.Seed, a.saw.Combinations, a.saw.Took = s, len(a.names), time.Since(a.began)
	for _, name := range slices.Sorted(maps.Keys(a.lines)) {
		a.saw.Lines = append(a.saw.Lines, *a.lines[name])
	}
	record.Save(a.t, "combos", a.saw)
	a.t.Logf("%d injections in %d rounds over %d distinct combinations in %v; worst %v; known %v; rounds by what must not be: %s",
		a.saw.Injections, a.saw.Rounds, a.saw.Combinations, a.saw.Took.Round(time.Second), a.saw.Worst, a.saw.Known, record.Counts(a.rules))
	if a.saw.Injections == 0 {
		a.t.Error("nothing was injected")
	}
	if os.Getenv(record.FolderEnv) != "" && !a.saw.Met() {
		a.t.Errorf("want %d injections over %d combinations, and nothing that must not be", record.ComboInjections, record.ComboCombinations)
	}
}

// fixed is the seed of the short run. New ones are for the night: a test is not to fail for what nobody has changed.
const fixed = 1

// overtime is for how much longer a run goes on while nothing was injected, on a machine that is busy with other tests.
const overtime = time.Minute

func TestCombinations(t *testing.T) {
	if segment, ok, err := ownSegment(); err != nil {
		t.Fatal(err)
	} else if ok {
		segment.run(t, os.NewFile(3, "results"))
		return
	}
	a := newTally(t)
	if token := os.Getenv(RoundEnv); token != "" {
		a.alone(token)
		return
	}
	var s uint64
	if testing.Short() {
		s = record.SeedOr(t, fixed)
	} else {
		s = record.Seed(t)
	}
	wanted := record.Number(t, "PROOF_COMBOS", record.Pick(40, record.ComboInjections))
	most := time.Duration(record.Number(t, "PROOF_COMBOS_SECONDS", record.Pick(12, 45*60))) * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), most+overtime)
	defer cancel()
	endIfOver := func() {
		if a.enough(wanted) || time.Since(a.began) >= most && a.enough(1) {
			cancel()
		}
	}
	defer time.AfterFunc(most, endIfOver).Stop()
	names, _ := servers()
	folder := t.TempDir()
	var running sync.WaitGroup
	n := uint64(0)
	for _, group := range Groups {
		for i := range lanes()[group] {
			n++
			rnd := rand.New(rand.NewPCG(s, n))
			running.Go(func() {
				for j := i; ctx.Err() == nil; j++ {
					left := time.Until(a.began.Add(most + overtime))
					seg := segment{Group: group, Server: names[j%len(names)], Seed: rnd.Uint64() >> 1, Rounds: record.Pick(40, 25), For: left}
					err := seg.carryOut(ctx, folder, func(r Result) {
						a.add(r)
						endIfOver()
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("%+v: %v", seg, err)
						return
					}
				}
			})
		}
	}
	running.Wait()
	a.report(s)
}

// alone runs one round in this process.
func (a *tally) alone(token string) {
	a.t.Helper()
	c, err := FromToken(token)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Log(c.Name())
	r := runRound(openSite(a.t, c.Group, c.Server), c, Open)
	a.t.Logf("%v, late by %v, worst %v, known %q, took %v", r.Calls, r.Late, r.Worst, r.Known, r.Took)
	a.add(r)
}
