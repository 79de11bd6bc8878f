package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/lockmw/kit/proof/record"
)

// What stands between these two lines of a document is rewritten.
const (
	opening = "<!-- proof: written by `go run ./report` in proof/ -->\n"
	closing = "<!-- proof: end -->\n"
)

// Figures returns a document with its figures as they are now.
func (r *Results) Figures(document []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(document, []byte(opening))
	_, after, closed := bytes.Cut(rest, []byte(closing))
	if !ok || !closed {
		return nil, errors.New("it has no place for the figures of the proof")
	}
	return bytes.Join([][]byte{before, after}, []byte(opening+r.headline()+closing)), nil
}

// headline returns the few figures that docs/proof.md shows.
func (r *Results) headline() string {
	p := &page{Results: r}
	met, failed, missing := r.tally()
	p.printf("")
	p.head("what was done", "seen")
	text := fmt.Sprintf("%d of %d met", len(met), len(checks))
	if len(failed) > 0 {
		text += "; **not met: " + numbers(failed) + "**"
	}
	if len(missing) > 0 {
		text += "; not run: " + numbers(missing)
	}
	if broken := r.broken(); len(broken) > 0 {
		text += "; **failed or not ended: " + strings.Join(broken, ", ") + "**"
	}
	p.row("the checks of the report", text)
	if kinds, injections, overlaps, _ := record.Count(r.Matrix, false); kinds > 0 {
		p.row("faults while Redis keeps its word", fmt.Sprintf("%s, %s: **%s**", record.Plural(kinds, "kind"), record.Plural(injections, "injection"), record.Plural(overlaps, "overlap")))
	}
	if c := r.Combos; c != nil {
		p.row("faults crossed with clients, loads, policies, servers", fmt.Sprintf("%s over %s: **%s**",
			record.Plural(c.Injections, "injection"), record.Plural(c.Combinations, "distinct combination"), found(c)))
	}
	for _, c := range []struct {
		number int
		name   string
	}{
		{2, "porcupine on those histories"}, {5, "Redis forgets, with a fenced store"}, {6, "holder partitioned"}, {3, "mistakes put into the code"}, {24, "soak"},
	} {
		for _, row := range r.of(c.number) {
			name, seen := c.name, cell(row.Figure)
			if strings.Contains(row.Name, "PostgreSQL") {
				name = "Redis forgets, with PostgreSQL and `Guard`"
			}
			if !row.Met {
				seen = "**not met:** " + seen
			}
			p.row(name, seen)
		}
	}
	if engines, _ := r.columns(); len(engines) > 0 {
		p.row("overlaps in the same experiments", r.sums(engines))
	}
	p.printf("")
	return p.String()
}

// sums says in how many tries of all experiments each engine let two in.
func (r *Results) sums(engines []string) string {
	var all []string
	for _, engine := range engines {
		overlaps, tries := 0, 0
		for _, one := range r.Rivals {
			if one.Engine == engine {
				overlaps, tries = overlaps+one.Overlaps, tries+one.Tries
			}
		}
		if tries > 0 {
			all = append(all, fmt.Sprintf("%s: %s of %s", cell(engine), record.Thousands(overlaps), record.Thousands(tries)))
		}
	}
	return strings.Join(all, "; ")
}
