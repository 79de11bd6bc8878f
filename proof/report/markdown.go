package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockmw/kit/proof/record"
)

// page is the report while it is written.
type page struct {
	bytes.Buffer

	*Results

	pictures string // where they are, seen from the report
}

// printf writes a line, or a paragraph.
func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// row writes one row of a table.
func (p *page) row(cells ...string) { p.printf("| %s |", strings.Join(cells, " | ")) }

// head writes the head of a table; columns of figures begin with ">".
func (p *page) head(names ...string) {
	under := make([]string, len(names))
	for i, name := range names {
		under[i] = "---"
		if right, ok := strings.CutPrefix(name, ">"); ok {
			names[i], under[i] = right, "---:"
		}
	}
	p.row(names...)
	p.row(under...)
}

// missing says which command makes what is not there.
func (p *page) missing(command string) { p.printf("Not run here; `%s` makes it.\n", command) }

// Markdown returns the report. Pictures are the path to the results folder, seen
// from the report.
func (r *Results) Markdown(pictures string) []byte {
	p := &page{Results: r, pictures: pictures}
	p.printf("<!-- Written by `go run ./report` in proof/ from what is in %s/; changes by hand are lost. -->\n", pictures)
	p.printf("# What was checked, and what was seen\n")
	p.printf("%s\n", strings.Join([]string{
		"Worker processes took locks on real Redis servers, each through a proxy of its own, while faults were injected:",
		"in the network, in Redis and in the workers themselves. Every hold was written down with a clock that all processes share.",
		"A hold lasts from the return of Acquire until its release is called, its context ends, what the lease says of its",
		"validity is over, or its process dies. An overlap is a hold that began while its key had no room for it, however",
		"short that was. A fenced store takes writes beside the lock and refuses those with too low a fence. The same was",
		"done to other libraries.",
		"This page is generated from the files in `" + pictures + "`; nothing on it is written by hand.",
	}, "\n"))
	p.verdict()
	p.checks()
	p.matrix()
	p.combos()
	p.forgets()
	p.mutants()
	p.rivals()
	p.timelines()
	p.printf("%s", notPromised)
	p.repeat()
	return p.Bytes()
}

// verdict begins with what was not met.
func (p *page) verdict() {
	met, failed, missing := p.tally()
	p.printf("**%d of %d checks met.**", len(met), len(checks))
	if len(failed) > 0 {
		p.printf("**NOT MET: %s.**", numbers(failed))
	}
	if broken := p.broken(); len(broken) > 0 {
		p.printf("**Runs that FAILED or did not end: %s.**", strings.Join(broken, ", "))
	}
	if len(missing) > 0 {
		p.printf("Not run here: %s.", numbers(missing))
	}
	p.printf("")
}

func (p *page) checks() {
	p.printf("## The checks\n")
	p.printf("The TTL is 2 s unless said otherwise.\n")
	p.head(">#", "what was done", "goal", "seen", "met", "note")
	for _, c := range checks {
		rows := p.of(c.Number)
		if len(rows) == 0 {
			p.row(fmt.Sprint(c.Number), cell(c.What), cell(c.Goal), "not run here", "–", "`"+c.Command+"`")
		}
		for _, row := range rows {
			p.row(fmt.Sprint(c.Number), cell(row.Name), cell(row.Goal), cell(row.Figure), yes(row.Met), cell(row.Note))
		}
	}
	for _, row := range p.of(0) {
		p.row("–", cell(row.Name), cell(row.Goal), cell(row.Figure), yes(row.Met), cell(row.Note))
	}
	p.printf("")
}

func yes(met bool) string {
	if met {
		return "yes"
	}
	return "**NO**"
}

func (p *page) timelines() {
	p.printf("## Timelines\n")
	if len(p.Timelines) == 0 {
		p.missing(makeRivals)
		return
	}
	p.printf("One row a worker. Where two hold the lock together, it is red.\n")
	names := slices.SortedFunc(maps.Keys(p.Timelines), func(a, b string) int {
		return cmp.Or(oursFirst(p.Timelines[a].Engine, p.Timelines[b].Engine), cmp.Compare(a, b))
	})
	for _, name := range names {
		t := p.Timelines[name]
		p.printf("![%s](%s/%s.svg)\n", cell(title(t)), p.pictures, name)
	}
}

const notPromised = `## What is not promised

- **Redis is the authority.** When it forgets a lock (a restart without persistence, a fail-over to a replica that is
  behind, an eviction, ` + "`FLUSHALL`" + `), or its clock jumps, two holders can overlap until the first one's next renewal
  tells it, 0.37 of the TTL later at most. No lock on one Redis can do better. Where that must not matter, give the
  fence to the resource and have it refuse a number lower than it has seen; that is what the fenced store here does.
- **A context can only ask.** Work that ignores its context goes on without the lock. A hold counts here until its
  context ends, not until its work does.
- While Redis keeps its word, holders do not overlap as long as clocks differ by up to 1 % in rate.
- A waiter whose process hangs can cost the others up to two seconds, once.
- A check shows what it has seen and no more: that a fault was not found in so many injections is no proof that there is
  none. Faults of discs, of the kernel and of whole machines were not injected; all ran on one machine.
`

// repeat says what the figures depend on, and how to have them again.
func (p *page) repeat() {
	p.printf("## To repeat it\n")
	if len(p.Runs) == 0 {
		p.printf("No run is noted here; `make proof`, `make combos`, `make soak`, `make proof-rivals` and `make mutants` note theirs.\n")
		return
	}
	p.head("run", "on", "commit", ">took", "ended", "again")
	for _, run := range p.Runs {
		again := commands[run.Command]
		if again == "" {
			again = run.Command
		}
		if run.Seed != 0 {
			again += fmt.Sprintf(" PROOF_SEED=%d", run.Seed)
		}
		took := short(run.Took)
		ended := "passed"
		switch {
		case run.Failed != "":
			ended = "**FAILED**: " + cell(run.Failed)
		case run.Took == 0:
			took, ended = "–", "**not ended**"
		}
		for _, part := range run.Again {
			came := "passed"
			if part.Failed != "" {
				came = "**FAILED**: " + cell(part.Failed)
			}
			ended += fmt.Sprintf("; again at %s, `%s`: %s", cell(part.Commit), cell(part.What), came)
		}
		p.row(cell(run.Command), run.Date.UTC().Format("2006-01-02 15:04 UTC"), cell(run.Commit), took, ended, "`"+again+"`")
	}
	p.printf("\nA seed replays the choice of faults, places and times; how processes are scheduled it cannot.")
	p.printf("A commit that ends in `-dirty` had changes that were not committed.\n")
	var machines, modules []string
	for _, run := range p.Runs {
		machines = append(machines, fmt.Sprintf("- %s, %s, %s, Redis %s", cell(run.CPU), record.Plural(run.Cores, "core"), cell(run.Go), cell(run.Redis)))
		for name, version := range run.Versions {
			modules = append(modules, fmt.Sprintf("- %s %s", name, version))
		}
	}
	slices.Sort(machines)
	slices.Sort(modules)
	for _, one := range slices.Concat(slices.Compact(machines), slices.Compact(modules)) {
		p.printf("%s", one)
	}
}
