package matrix

import (
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

// ttl is that of all locks here: two seconds, or one in a short run of a few injections.
func ttl() time.Duration {
	if testing.Short() {
		return time.Second
	}
	return 2 * time.Second
}

// run does each kind so many times, on lanes side by side.
func run(t *testing.T, lanes, times int, seed uint64, kinds []Kind) Outcome {
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
		share := max(1, (lanes*len(jobs)+total/2)/total) // of the lanes
		for i := range share {
			n++
			lane := NewLane(t, fmt.Sprintf("lane%d", n), rnd.Uint64(), ttl(), need)
			running.Go(func() {
				for j := i; j < len(jobs); j += share {
					lane.Inject(jobs[j])
				}
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
func report(t *testing.T, o *Outcome, lines []record.Line) {
	t.Helper()
	for i, fault := range o.Faults() {
		if i == 30 {
			t.Error("…")
			break
		}
		t.Error(fault)
	}
	for _, line := range lines {
		t.Logf("%3d × %s: %d met, %d holds, %d lost, %d overlaps, margin %v, alive again after %v, noticed after %v (%d)",
			line.Injections, line.Kind, line.Met, line.Holds, line.Lost, line.Overlaps, line.Margin, line.Recovery, line.Noticed, line.Forgotten)
	}
}

// keptWord lists all faults in which Redis keeps each key until its TTL is over.
func keptWord() []Kind {
	return slices.Concat(network(), connection(), server(), process(), tenure())
}

// Checks 2 and 4.
func TestHoldersDoNotOverlapWhileRedisKeepsItsWord(t *testing.T) {
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
		Goal:   fmt.Sprintf("≥ %d kinds × ≥ %d: 0 overlaps", wantKinds, wantTimes),
		Figure: fmt.Sprintf("%d kinds × ≥ %d, %d injections in %v, %d holds: %d overlaps", kindsSeen, least, injections, took.Round(time.Second), len(o.Holds), overlaps),
		Met:    kindsSeen >= wantKinds && least >= wantTimes && overlaps == 0,
		Note:   fmt.Sprintf("seed %d", s),
	})
	verdict := history.Check(o.Holds, o.Writes, 5*time.Minute)
	record.Add(t, record.Row{
		Check: 2, Name: "porcupine on the same histories",
		Goal:   fmt.Sprintf("≥ %d operations, ≥ %d keys: 0 illegal, 0 unknown", wantOperations, wantKeys),
		Figure: fmt.Sprintf("%d operations (%v), %d keys: %d illegal, %d unknown", verdict.Total(), record.Counts(verdict.Operations), verdict.Keys, len(verdict.Illegal), len(verdict.Unknown)),
		Met:    verdict.Total() >= wantOperations && verdict.Keys >= wantKeys && len(verdict.Illegal)+len(verdict.Unknown) == 0,
		Note:   strings.Join(append(verdict.Illegal, verdict.Unknown...), " "),
	})
}

// Check 5 of REPORT.md.
func TestFencesHoldWhereRedisForgets(t *testing.T) {
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
		Goal: fmt.Sprintf("≥ %d kinds × %d: 0 stale writes accepted, noticed within %v", wantKinds, wantTimes, limit),
		Figure: fmt.Sprintf("%d kinds × ≥ %d, %d injections: %d stale writes accepted (%d writes, %d late ones refused), noticed within %v; %d overlaps",
			kindsSeen, least, injections, stale, len(o.Writes), late, noticed.Round(time.Millisecond), overlaps),
		Met:  kindsSeen >= wantKinds && least >= wantTimes && stale == 0 && noticed <= limit,
		Note: fmt.Sprintf("seed %d", s),
	})
}
