package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockmw/kit/proof/record"
)

// dimensions is the order in which the report tells of them.
var dimensions = []string{"server", "client", "trait", "callers", "shape", "keys", "form", "patience", "FailOpen", "TTL", "distance", "observer", "logger"}

func (p *page) combos() {
	p.printf("## Faults crossed with clients, loads, policies and more\n")
	p.printf("Rounds drawn at random cross a fault with a kind of client, a load at the moment of the fault, a policy, a distance,")
	p.printf("observers, loggers and a server. Judged are overlaps, work without the lock where FailOpen's list does not allow it,")
	p.printf("wrong errors, keys left after 2 s, callers that come back late, leases, Close, and goroutines that are left.\n")
	c := p.Combos
	if c == nil {
		p.missing(makeCombos)
		return
	}
	p.printf("%s in %s over %s: **%s**.\n", record.Plural(c.Injections, "injection"), record.Plural(c.Rounds, "round"),
		record.Plural(c.Combinations, "distinct combination"), found(c))
	p.head("fault", ">rounds", ">injections", ">locks granted", ">refused", ">went on without, as allowed", ">rounds with a finding")
	for _, l := range c.Lines {
		p.row(cell(l.Fault), record.Thousands(l.Rounds), record.Thousands(l.Injections), record.Thousands(l.Granted), record.Thousands(l.Refused), record.Thousands(l.Open), loud(l.Found))
	}
	p.printf("")
	p.head("dimension", "rounds of each value")
	for _, name := range dimensions {
		var values []string
		for _, value := range slices.Sorted(maps.Keys(c.Values[name])) {
			values = append(values, fmt.Sprintf("%s: %s", cell(value), record.Thousands(c.Values[name][value])))
		}
		p.row(name, strings.Join(values, "; "))
	}
	p.printf("")
	for _, f := range c.Found {
		p.printf("- **%s**: %s (`PROOF_ROUND=%s`; %s)", cell(f.Rule), cell(f.Text), f.Token, cell(f.Combination))
	}
	for _, what := range slices.Sorted(maps.Keys(c.Known)) {
		p.printf("- Known, and not mended yet, seen in %s: %s", record.Plural(c.Known[what], "round"), cell(what))
	}
	if len(c.Found)+len(c.Known) > 0 {
		p.printf("")
	}
}

// found says how much was found.
func found(c *record.Combos) string {
	if len(c.Found) == 0 {
		return "nothing that must not be"
	}
	return record.Plural(len(c.Found), "finding")
}
