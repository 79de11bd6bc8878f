package matrix

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
	"github.com/lockmw/kit/proof/worker"
)

func TestMain(m *testing.M) {
	worker.Main()
	if err := runChosen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	redistest.Main(m)
}

// ttl is that of all locks here: two seconds, or one in a short run (go test -short).
func ttl() time.Duration {
	if testing.Short() {
		return time.Second
	}
	return 2 * time.Second
}

// run does each kind so many times, on lanes side by side, which have the options of NewLane.
func run(t testing.TB, lanes, times int, seed uint64, kinds []Kind, options ...func(*Lane)) Outcome {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	byNeed := make(map[string][]Kind)
	for _, kind := range kinds {
		for range times {
			byNeed[kind.Needs] = append(byNeed[kind.Needs], kind)
		}
	}
	var all Outcome
	var mu sync.Mutex
	var running sync.WaitGroup
	total := len(kinds) * times
	n := 0
	needs := make([]string, 0, len(byNeed))
	for need := range byNeed {
		needs = append(needs, need)
	}
	slices.Sort(needs)
	for _, need := range needs {
		jobs := byNeed[need]
		rnd.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
		share := min(len(jobs), max(1, (lanes*len(jobs)+total/2)/total)) // of the lanes; each has something to do
		for i := range share {
			n++
			lane := NewLane(t, fmt.Sprintf("lane%d", n), rnd.Uint64(), ttl(), need, options...)
			running.Go(func() {
				var own []Kind
				for j := i; j < len(jobs); j += share {
					own = append(own, jobs[j])
				}
				lane.InjectAll(own)
				o := lane.End()
				mu.Lock()
				defer mu.Unlock()
				all.Add(lane.Name, o)
			})
		}
	}
	running.Wait()
	return all
}

// report says what must not be, and logs each kind's line.
func report(t testing.TB, o *Outcome, lines []record.Line) {
	t.Helper()
	faults := o.Faults()
	if len(faults) > 0 {
		t.Logf("all that the workers told is in %s", keep(t, o))
	}
	for i, fault := range faults {
		if i == 30 {
			t.Error("…")
			break
		}
		t.Error(fault)
	}
	for _, line := range lines {
		t.Logf("%3d × %s: %s", line.Injections, line.Kind, seen(line))
	}
	t.Logf("jobs: %v; %s went on by a ticket", o.Jobs, record.Thousands(history.Resumed(o.Holds)))
}

// keep writes an outcome to a file that stays, since a run can hardly be had again, and returns its name.
func keep(t testing.TB, o *Outcome) string {
	t.Helper()
	file, err := os.CreateTemp(os.TempDir(), "proof-matrix-*.json")
	if err == nil {
		err = errors.Join(json.NewEncoder(file).Encode(o), file.Close())
	}
	if err != nil {
		t.Error(err)
		return "no file"
	}
	return file.Name()
}

// seen says in words what became of the locks under a kind of fault.
func seen(line record.Line) string {
	all := []string{
		"met " + record.Plural(line.Met, "hold"),
		record.Thousands(line.Holds) + " began since its start",
		record.Thousands(line.Lost) + " lost",
		record.Plural(line.Overlaps, "overlap"),
	}
	switch {
	case line.Margin == record.NoMargin:
	case line.Margin < 0:
		all = append(all, fmt.Sprintf("the next holder came up to %v before the end of a lost or killed one", brief(-line.Margin)))
	default:
		all = append(all, fmt.Sprintf("the next holder came at least %v after the end of a lost or killed one", brief(line.Margin)))
	}
	if line.Recovery > 0 {
		all = append(all, fmt.Sprintf("all short locks had a new holder within %v of its end", brief(line.Recovery)))
	}
	if line.Forgotten > 0 {
		all = append(all, fmt.Sprintf("%s forgotten, which the holders noticed within %v", record.Plural(line.Forgotten, "hold"), brief(line.Noticed)))
	}
	return strings.Join(all, ", ")
}

// brief leaves out the digits that say nothing.
func brief(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// keptWord lists all faults in which Redis keeps each key until its TTL is over.
func keptWord() []Kind {
	return slices.Concat(network(), connection(), server(), process(), tenure())
}

// Checks 2 and 4.
func TestHoldersDoNotOverlapWhileRedisKeepsItsWord(test *testing.T) {
	t := reasonsLast(test)
	s := record.Seed(t)
	began := time.Now()
	kinds := chosen(keptWord())
	o := run(t, record.Pick(4, 8), times(t, 50), s, kinds)
	took := time.Since(began)
	lines := o.Lines()
	report(t, &o, lines)

	kindsSeen, injections, overlaps, least := record.Count(lines, false)
	wantKinds, wantTimes, wantOperations, wantKeys := whole(24), whole(record.Pick(1, 50)), whole(record.Pick(1000, 40_000)), whole(20)
	record.Save(t, "matrix", lines)
	record.Add(t, record.Row{
		Check: 4, Name: "faults while Redis keeps its word",
		Goal: fmt.Sprintf("≥ %s × ≥ %d: 0 overlaps", record.Plural(wantKinds, "kind"), wantTimes),
		Figure: fmt.Sprintf("%s × ≥ %d, %s in %v, %s in all: %s", record.Plural(kindsSeen, "kind"), least, record.Plural(injections, "injection"),
			took.Round(time.Second), record.Plural(len(o.Holds), "hold"), record.Plural(overlaps, "overlap")),
		Met:  kindsSeen >= wantKinds && least >= wantTimes && overlaps == 0,
		Note: fmt.Sprintf("seed %d", s),
	})
	verdict := history.Check(o.Holds, o.Writes, 5*time.Minute)
	record.Add(t, record.Row{
		Check: 2, Name: "porcupine on the same histories",
		Goal:   fmt.Sprintf("≥ %s, ≥ %s: 0 illegal, 0 unknown", record.Plural(wantOperations, "operation"), record.Plural(wantKeys, "key")),
		Figure: fmt.Sprintf("%s (%v), %s: %d illegal, %d unknown", record.Plural(verdict.Total(), "operation"), record.Counts(verdict.Operations), record.Plural(verdict.Keys, "key"), len(verdict.Illegal), len(verdict.Unknown)),
		Met:    verdict.Total() >= wantOperations && verdict.Keys >= wantKeys && len(verdict.Illegal)+len(verdict.Unknown) == 0,
		Note:   strings.Join(append(verdict.Illegal, verdict.Unknown...), " "),
	})
}

// Check 5 of REPORT.md.
func TestFencesHoldWhereRedisForgets(test *testing.T) {
	t := reasonsLast(test)
	s := record.Seed(t)
	kinds := chosen(forget())
	o := run(t, record.Pick(2, 6), times(t, 30), s, kinds)
	lines := o.Lines()
	report(t, &o, lines)
	record.Save(t, "forgets", lines)

	kindsSeen, injections, overlaps, least := record.Count(lines, true)
	wantKinds, wantTimes := whole(6), whole(record.Pick(1, 30))
	late, stale := 0, len(history.StaleWrites(o.Holds, o.Writes))
	for _, w := range o.Writes {
		if w.Late && !w.Accepted {
			late++
		}
	}
	var noticed time.Duration
	for _, line := range lines {
		noticed = max(noticed, line.Noticed)
	}
	limit := ttl()/3 + 500*time.Millisecond
	if testing.Short() {
		limit += 5 * time.Second // on a machine that is busy with other tests
	}
	record.Add(t, record.Row{
		Check: 5, Name: "Redis forgets, with the fenced store",
		Goal: fmt.Sprintf("≥ %s × %d: 0 stale writes accepted, noticed within %v", record.Plural(wantKinds, "kind"), wantTimes, limit),
		Figure: fmt.Sprintf("%s × ≥ %d, %s: %s accepted (%s, %d late ones refused), noticed within %v; %s",
			record.Plural(kindsSeen, "kind"), least, record.Plural(injections, "injection"), record.Plural(stale, "stale write"),
			record.Plural(len(o.Writes), "write"), late, noticed.Round(time.Millisecond), record.Plural(overlaps, "overlap")),
		Met:  kindsSeen >= wantKinds && least >= wantTimes && stale == 0 && noticed <= limit,
		Note: fmt.Sprintf("seed %d", s),
	})
}
