package matrix

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// on does kinds one after the other on a lane, in any order.
func (l *Lane) on(kinds []Kind, times int) Outcome {
	var jobs []Kind
	for range times {
		jobs = append(jobs, kinds...)
	}
	l.rnd.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	if _, dead := l.alive(clock.Now()); len(dead) > 0 {
		l.tb.Errorf("%s: no progress before any fault: %v", l.Name, dead)
	}
	for _, kind := range jobs {
		l.Inject(kind)
	}
	o := l.End()
	var all Outcome
	all.Add(l.Name, o)
	return all
}

// over names kinds after where they are done.
func over(where string, kinds []Kind) []Kind {
	kinds = slices.Clone(kinds)
	for i := range kinds {
		kinds[i].Name = where + ": " + kinds[i].Name
	}
	return kinds
}

// Check 4 and 22, on a Cluster, and check 4 on a quorum of five.
func TestOtherTopologies(t *testing.T) {
	s := record.Seed(t)
	n := times(t, 25)
	var o Outcome
	var mu sync.Mutex
	var running sync.WaitGroup
	start := func(l *Lane, kinds []Kind) {
		running.Go(func() {
			one := l.on(kinds, n)
			mu.Lock()
			defer mu.Unlock()
			o.Injections = append(o.Injections, one.Injections...)
			o.Holds = append(o.Holds, one.Holds...)
			o.Writes = append(o.Writes, one.Writes...)
			o.Left = append(o.Left, one.Left...)
			o.Eternal = append(o.Eternal, one.Eternal...)
			o.Failures = append(o.Failures, one.Failures...)
		})
	}
	processes := workers()
	processes = processes[:record.Pick(2, len(processes))]
	for i := range record.Pick(1, 2) {
		start(NewClusterLane(t, fmt.Sprintf("cluster%d", i+1), s+uint64(i), ttl()), chosen(t, append(cluster(), over("Cluster", processes)...)))
		start(NewPipelineLane(t, fmt.Sprintf("pipeline%d", i+1), s+uint64(20+i), ttl()), chosen(t, []Kind{slotOfPipeline}))
		start(NewQuorumLane(t, fmt.Sprintf("quorum%d", i+1), s+uint64(10+i), ttl()), chosen(t, append(quorum(), over("quorum", processes)...)))
	}
	running.Wait()
	lines := o.Lines()
	report(t, &o, lines)
	record.Save(t, "matrix-topologies", lines)
	verdict := history.Check(o.Holds, o.Writes, 5*time.Minute)
	kinds, injections, overlaps, least := record.Count(lines, false)
	record.Add(t, record.Row{
		Check: 4, Name: "faults of a Cluster of three and of a quorum of five",
		Goal: "0 overlaps, porcupine agrees",
		Figure: fmt.Sprintf("%d kinds × ≥ %d, %d injections, %d holds: %d overlaps; %d operations, %d illegal, %d unknown",
			kinds, least, injections, len(o.Holds), overlaps, verdict.Total(), len(verdict.Illegal), len(verdict.Unknown)),
		Met:  overlaps == 0 && len(verdict.Illegal)+len(verdict.Unknown) == 0,
		Note: fmt.Sprintf("seed %d %v", s, verdict.Illegal),
	})
	i := slices.IndexFunc(lines, func(line record.Line) bool { return line.Kind == "Cluster: a slot is moved" })
	if i < 0 {
		return // not chosen
	}
	record.Add(t, record.Row{
		Check: 22, Name: "Cluster of three, a slot moved under load",
		Goal: "recovers by itself; overlaps published",
		Figure: fmt.Sprintf("%d moves, %d holds, %d lost, %d overlaps; turns on all keys again within %v",
			lines[i].Injections, lines[i].Holds, lines[i].Lost, lines[i].Overlaps, lines[i].Recovery.Round(time.Millisecond)),
		Met: lines[i].Overlaps == 0,
	})
}

// Check 22, on Sentinels: the replica may be behind, which is out of the model.
func TestFailover(t *testing.T) {
	s := record.Seed(t)
	var all Outcome
	add := func(o Outcome) {
		all.Injections = append(all.Injections, o.Injections...)
		all.Holds = append(all.Holds, o.Holds...)
		all.Writes = append(all.Writes, o.Writes...)
		all.Failures = append(all.Failures, o.Failures...)
		all.Refused += o.Refused
	}
	for i := range record.Pick(1, 6) {
		l := NewSentinelLane(t, fmt.Sprintf("sentinel%d", i+1), s+uint64(i), ttl())
		add(l.on([]Kind{failover}, 1))
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	for i := range record.Pick(1, 5) {
		l := NewSentinelPipelineLane(t, fmt.Sprintf("master%d", i+1), s+uint64(10+i), ttl())
		running.Go(func() {
			o := l.on([]Kind{masterOfPipeline}, record.Pick(1, 10))
			mu.Lock()
			defer mu.Unlock()
			add(o)
		})
	}
	running.Wait()
	lines := all.Lines()
	recovery := max(lines[0].Recovery, lines[1].Recovery)
	report(t, &all, lines)
	record.Save(t, "forgets-failover", lines)
	_, injections, overlaps, _ := record.Count(lines, true)
	stale := len(history.StaleWrites(all.Holds, all.Writes))
	limit := 30 * time.Second
	record.Add(t, record.Row{
		Check: 22, Name: "Sentinel fail-over under load",
		Goal: "recovers by itself, 0 stale writes accepted; overlaps published",
		Figure: fmt.Sprintf("%d fail-overs, %d holds, %d refused; turns on all keys again within %v of each; %d overlaps, %d stale writes accepted",
			injections, len(all.Holds), all.Refused, recovery.Round(time.Millisecond), overlaps, stale),
		Met:  stale == 0 && recovery < limit,
		Note: fmt.Sprintf("seed %d", s),
	})
}
