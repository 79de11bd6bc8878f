package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/proof/record"
)

func (p *page) matrix() {
	p.printf("## Faults while Redis keeps its word\n")
	if len(p.Matrix) == 0 {
		p.missing(makeProof)
		return
	}
	kinds, injections, overlaps, least := record.Count(p.Matrix, false)
	p.printf("Redis keeps each key until its TTL is over. %s, %s, of each kind %s or more: **%s**.",
		record.Plural(kinds, "kind"), record.Plural(injections, "injection"), record.Thousands(least), record.Plural(overlaps, "overlap"))
	p.printf("*Next holder after* is the shortest time from the end of a holder that did not release to its successor;")
	p.printf("*alive again* is the longest from the end of the fault until all short locks had a new holder.\n")
	p.head("fault", ">injections", ">holds", ">of them lost", ">overlaps", ">next holder after", ">alive again")
	for _, l := range p.Matrix {
		p.row(cell(l.Kind), record.Thousands(l.Injections), record.Thousands(l.Holds), record.Thousands(l.Lost), loud(l.Overlaps), short(l.Margin), short(l.Recovery))
	}
	p.printf("")
}

// loud makes a number that should be zero stand out.
func loud(n int) string {
	if n > 0 {
		return "**" + record.Thousands(n) + "**"
	}
	return "0"
}

func (p *page) forgets() {
	p.printf("## Where Redis forgets\n")
	p.printf("Here Redis loses or rewrites a lock that is held, or its clock jumps. Then it gives the lock to somebody else while")
	p.printf("the first holder still trusts it: no lock on one Redis can prevent that. So overlaps are counted here, not forbidden.")
	p.printf("What is owed is that the holder notices soon, and that a store which checks the fence refuses its late writes (check 5).\n")
	if len(p.Forgets) == 0 {
		p.missing(makeProof)
		return
	}
	p.head("fault", ">injections", ">holds", ">overlaps", ">holds forgotten", ">noticed within")
	for _, l := range p.Forgets {
		noticed := short(l.Noticed)
		if l.Forgotten == 0 {
			noticed = "–"
		}
		p.row(cell(l.Kind), record.Thousands(l.Injections), record.Thousands(l.Holds), record.Thousands(l.Overlaps), record.Thousands(l.Forgotten), noticed)
	}
	p.printf("")
}

// limitOfMutants is within what each of them is to be caught.
const limitOfMutants = time.Minute

func caughtOf(mutants []record.Mutant) (caught int, slowest time.Duration) {
	for _, m := range mutants {
		if m.Caught {
			caught++
			slowest = max(slowest, m.Took)
		}
	}
	return caught, slowest
}

func (p *page) mutants() {
	p.printf("## Mutants\n")
	p.printf("Checks that find nothing may be blind. So mistakes were put into the code, one at a time, and the checks run again.\n")
	if len(p.Mutants) == 0 {
		p.missing(makeMutants)
		return
	}
	p.head("mutant", "what was changed", "caught", "by", ">after")
	for _, m := range p.Mutants {
		p.row(cell(m.Name), cell(m.What), yes(m.Caught), cell(m.By), short(m.Took))
	}
	p.printf("")
}

// ours is this library among the engines.
const ours = "lockmw"

func oursFirst(a, b string) int { return cmp.Compare(other(a), other(b)) }

func other(engine string) int {
	if engine == ours {
		return 0
	}
	return 1
}

// usage says how each engine was used, by the first word of its name.
var usage = map[string]string{
	"lockmw": "`Acquire` and `Release` of a Locker with default options; its watchdog renews.",
	"redislock": "`Obtain` with a linear back-off of 20 ms. It has no watchdog: a loop calls `Refresh` every third of the TTL, " +
		"as its users are told to write, and ends the hold at the first renewal that fails.",
	"redsync": "one pool, `NewMutex` with tries every 20 ms. It has no watchdog: a loop calls `Extend` every third of the TTL, " +
		"and ends the hold at the first one that fails. `Until` counts too: past it the hold is over.",
	"rueidislock": "`WithContext` with `KeyMajority` 1, `NoLoopTracking` and `KeyValidity` set to the TTL; its own watchdog renews.",
}

func (p *page) rivals() {
	p.printf("## The same faults, other libraries\n")
	if len(p.Rivals) == 0 {
		p.missing(makeRivals)
		return
	}
	p.printf("Each figure is in how many tries two held the lock together, and for how long at most. The same was done to each, and")
	p.printf("each library is believed: its hold is over as soon as it says so. An outcome is a fact about this use and these")
	p.printf("versions; a library that never says that a lock is lost may well leave that to its user on purpose.\n")
	engines, experiments := p.columns()
	p.head(append([]string{"experiment"}, engines...)...)
	var notes []string
	for _, experiment := range experiments {
		cells := []string{cell(experiment)}
		for _, engine := range engines {
			i := slices.IndexFunc(p.Rivals, func(r record.Rival) bool { return r.Engine == engine && r.Experiment == experiment })
			if i < 0 {
				cells = append(cells, "–")
				continue
			}
			r := p.Rivals[i]
			cells = append(cells, outcome(r))
			// One that is about the experiment comes with every engine.
			if note := fmt.Sprintf("- %s: %s", cell(experiment), cell(r.Note)); r.Note != "" && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
		p.row(cells...)
	}
	p.printf("\nHow each was used:\n")
	for _, engine := range engines {
		name, _, _ := strings.Cut(engine, " ")
		p.printf("- %s: %s", cell(engine), cmp.Or(usage[name], "see package engines."))
	}
	if len(notes) > 0 {
		p.printf("\nNotes:\n\n%s", strings.Join(notes, "\n"))
	}
	p.printf("")
}

// columns returns the engines, ours first, and the experiments, in the order in
// which they came.
func (r *Results) columns() (engines, experiments []string) {
	for _, one := range r.Rivals {
		if !slices.Contains(engines, one.Engine) {
			engines = append(engines, one.Engine)
		}
		if !slices.Contains(experiments, one.Experiment) {
			experiments = append(experiments, one.Experiment)
		}
	}
	slices.SortStableFunc(engines, oursFirst)
	return engines, experiments
}

// outcome says what an engine did in an experiment: 37 of 50, up to 1.2 s.
func outcome(r record.Rival) string {
	if r.Tries == 0 {
		return "–"
	}
	text := fmt.Sprintf("%s of %s", record.Thousands(r.Overlaps), record.Thousands(r.Tries))
	if r.Overlaps > 0 {
		text += ", up to " + short(r.Worst)
	}
	if r.False > 0 {
		text += "; " + record.Plural(r.False, "wrong answer")
	}
	if r.Stuck > 0 {
		text += "; " + record.Thousands(r.Stuck) + " stuck"
	}
	return text
}
