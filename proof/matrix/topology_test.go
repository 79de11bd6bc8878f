package matrix

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

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
	l.InjectAll(jobs)
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

// onCluster lists the faults of a Cluster and of its clients, onQuorum those of a quorum.
func onCluster() []Kind { return append(cluster(), over("Cluster", someProcess())...) }

func onQuorum() []Kind { return append(quorum(), over("quorum", someProcess())...) }

// someProcess lists the faults of processes, in a short run two of them, unless somebody has chosen.
func someProcess() []Kind {
	all := processWithoutProxy()
	if os.Getenv(kindsEnv) != "" {
		return all
	}
	return all[:record.Pick(2, len(all))]
}

// quorumTTL is the TTL of locks in a quorum. Its nodes have a quarter of it to answer, which has to be more than a busy machine takes.
func quorumTTL() time.Duration {
	if testing.Short() {
		return 3 * ttl()
	}
	return ttl()
}

// Checks 4 and 22 of REPORT.md, on a Cluster, and check 4 on a quorum of five.
func TestOtherTopologies(test *testing.T) {
	t := reasonsLast(test)
	s := record.Seed(t)
	n := times(t, 25)
	var o Outcome
	var mu sync.Mutex
	var running sync.WaitGroup
	start := func(newLane func(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane, name string, seed uint64, ttl time.Duration, kinds []Kind) {
		if kinds = chosen(kinds); len(kinds) == 0 {
			return
		}
		l := newLane(t, name, seed, ttl)
		running.Go(func() {
			one := l.on(kinds, n)
			mu.Lock()
			defer mu.Unlock()
			o.join(one)
		})
	}
	for i := range whole(record.Pick(1, 2)) {
		seed := s + uint64(i)
		start(NewClusterLane, fmt.Sprintf("cluster%d", i+1), seed, ttl(), onCluster())
		start(NewPipelineLane, fmt.Sprintf("pipeline%d", i+1), seed+20, ttl(), []Kind{slotOfPipeline})
		start(NewQuorumLane, fmt.Sprintf("quorum%d", i+1), seed+10, quorumTTL(), onQuorum())
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
		Figure: fmt.Sprintf("%s × ≥ %d, %s, %s in all: %s; %s, %d illegal, %d unknown",
			record.Plural(kinds, "kind"), least, record.Plural(injections, "injection"), record.Plural(len(o.Holds), "hold"), record.Plural(overlaps, "overlap"),
			record.Plural(verdict.Total(), "operation"), len(verdict.Illegal), len(verdict.Unknown)),
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
		Figure: fmt.Sprintf("%s, %s after them, %d lost, %s; turns on all keys again within %v",
			record.Plural(lines[i].Injections, "move"), record.Plural(lines[i].Holds, "hold"), lines[i].Lost, record.Plural(lines[i].Overlaps, "overlap"), lines[i].Recovery.Round(time.Millisecond)),
		Met: lines[i].Overlaps == 0,
	})
}

// Check 22 of REPORT.md, on Sentinels: the replica may be behind, which is out of the model.
func TestFailover(test *testing.T) {
	t := reasonsLast(test)
	s := record.Seed(t)
	var all Outcome
	add := func(o Outcome) {
		o.Left, o.Eternal = nil, nil // keys of a replica that was behind
		all.join(o)
	}
	if kinds := chosen([]Kind{failover}); len(kinds) > 0 {
		for i := range times(t, 6) {
			l := NewSentinelLane(t, fmt.Sprintf("sentinel%d", i+1), s+uint64(i), ttl())
			add(l.on(kinds, 1))
		}
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	pipelines, each := whole(record.Pick(1, 5)), times(t, 10)
	inPipeline := chosen([]Kind{masterOfPipeline})
	if len(inPipeline) == 0 {
		pipelines = 0
	}
	for i := range pipelines {
		l := NewSentinelPipelineLane(t, fmt.Sprintf("master%d", i+1), s+uint64(10+i), ttl())
		running.Go(func() {
			o := l.on(inPipeline, each)
			mu.Lock()
			defer mu.Unlock()
			add(o)
		})
	}
	running.Wait()
	lines := all.Lines()
	var recovery time.Duration
	for _, line := range lines {
		recovery = max(recovery, line.Recovery)
	}
	report(t, &all, lines)
	record.Save(t, "forgets-failover", lines)
	_, injections, overlaps, _ := record.Count(lines, true)
	stale := len(history.StaleWrites(all.Holds, all.Writes))
	limit := 30 * time.Second
	record.Add(t, record.Row{
		Check: 22, Name: "Sentinel fail-over under load",
		Goal: "recovers by itself, 0 stale writes accepted; overlaps published",
		Figure: fmt.Sprintf("%s, %s in all, %d refused; turns on all keys again within %v of each; %s, %s accepted",
			record.Plural(injections, "fail-over"), record.Plural(len(all.Holds), "hold"), all.Refused, recovery.Round(time.Millisecond),
			record.Plural(overlaps, "overlap"), record.Plural(stale, "stale write")),
		Met:  stale == 0 && recovery < limit,
		Note: fmt.Sprintf("seed %d", s),
	})
}
