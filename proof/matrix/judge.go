package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// Injection is one fault that was done.
type Injection struct {
	Kind    string        `json:"kind"`
	Forgets bool          `json:"forgets"`
	Lane    string        `json:"lane"`
	Began   time.Duration `json:"began"`  // the lane began to do it
	Before  time.Duration `json:"before"` // Redis had not forgotten yet, if Gone names something
	At      time.Duration `json:"at"`     // it began, or Redis had forgotten
	Healed  time.Duration `json:"healed"` //
	Alive   time.Duration `json:"alive"`  // a new holder of each short key had begun after that
	Dead    []string      `json:"dead"`   // short keys that got none
	Gone    []string      `json:"gone"`   // what Redis forgot
}

// Outcome is what one lane, or all of them, saw.
type Outcome struct {
	Injections []Injection
	Holds      []history.Hold
	Writes     []history.Write
	Uses       []history.Use // of tickets
	Answers    history.Answers
	Refused    int
	Jobs       Jobs
	Undone     []string // jobs that were not lost, and never done
	Left       []string // keys that should have ended
	Eternal    []string // keys that were without a TTL
	Failures   []string // of the harness itself
}

// Add puts another lane's outcome to this one. Lanes have keys of the same names,
// so that they are told apart here.
func (o *Outcome) Add(lane string, more Outcome) {
	for i := range more.Holds {
		more.Holds[i].Key = lane + "/" + more.Holds[i].Key
	}
	for i := range more.Writes {
		more.Writes[i].Key = lane + "/" + more.Writes[i].Key
	}
	for i := range more.Answers.Calls {
		more.Answers.Calls[i].Key = lane + "/" + more.Answers.Calls[i].Key
	}
	for i := range more.Answers.Resolutions {
		more.Answers.Resolutions[i].Key = lane + "/" + more.Answers.Resolutions[i].Key
	}
	for i, u := range more.Answers.Unkept {
		if u.Key != "" {
			more.Answers.Unkept[i].Key = lane + "/" + u.Key
		}
	}
	o.join(more)
}

// join puts an outcome to this one whose lanes are told apart already.
func (o *Outcome) join(more Outcome) {
	o.Injections = append(o.Injections, more.Injections...)
	o.Holds = append(o.Holds, more.Holds...)
	o.Writes = append(o.Writes, more.Writes...)
	o.Uses = append(o.Uses, more.Uses...)
	o.Answers.Add(more.Answers)
	o.Undone = append(o.Undone, more.Undone...)
	o.Refused += more.Refused
	o.Jobs.add(more.Jobs)
	o.Left = append(o.Left, more.Left...)
	o.Eternal = append(o.Eternal, more.Eternal...)
	o.Failures = append(o.Failures, more.Failures...)
}

// Lines sorts what happened by the kinds of faults.
func (o *Outcome) Lines() []record.Line {
	lines := make(map[string]*record.Line)
	byLane := make(map[string][]Injection)
	for _, in := range o.Injections {
		line := lines[in.Kind]
		if line == nil {
			line = &record.Line{Kind: in.Kind, Forgets: in.Forgets, Margin: record.NoMargin}
			lines[in.Kind] = line
		}
		line.Injections++
		if len(in.Dead) == 0 {
			line.Recovery = max(line.Recovery, in.Alive-in.Healed)
		}
		byLane[in.Lane] = append(byLane[in.Lane], in)
	}
	// during returns the injection of a lane that was the latest at a moment.
	during := func(key string, at time.Duration) *record.Line {
		lane, _, _ := strings.Cut(key, "/")
		ins := byLane[lane]
		i, _ := slices.BinarySearchFunc(ins, at, func(in Injection, at time.Duration) int { return cmp.Compare(in.At, at) })
		if i == 0 {
			return &record.Line{} // before the first
		}
		return lines[ins[i-1].Kind]
	}
	for _, h := range o.Holds {
		during(h.Key, h.Began).Holds++
		if h.How == history.Lost {
			during(h.Key, h.Ended).Lost++
		}
	}
	for _, overlap := range history.Overlaps(o.Holds) {
		during(overlap.Hold.Key, overlap.Hold.Began).Overlaps++
	}
	met := o.met()
	for kind, line := range lines {
		line.Met = met[kind]
	}
	o.margins(during)
	o.notice(lines)
	return slices.SortedFunc(func(yield func(record.Line) bool) {
		for _, line := range lines {
			if !yield(*line) {
				return
			}
		}
	}, func(a, b record.Line) int {
		return cmp.Or(cmp.Compare(one(a.Forgets), one(b.Forgets)), cmp.Compare(a.Kind, b.Kind))
	})
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// met counts, by kind, the holds that the faults met: they had begun before the fault began, and had not ended by then.
func (o *Outcome) met() map[string]int {
	met := make(map[string]int)
	byLane := make(map[string][]Injection) // in their order
	for _, in := range o.Injections {
		met[in.Kind] = 0
		byLane[in.Lane] = append(byLane[in.Lane], in)
	}
	for _, h := range o.Holds {
		lane, _, _ := strings.Cut(h.Key, "/")
		ins := byLane[lane]
		next := sort.Search(len(ins), func(i int) bool { return ins[i].Began > h.Began })
		for ; next < len(ins) && ins[next].Began <= h.Ended; next++ {
			met[ins[next].Kind]++
		}
	}
	return met
}

// margins looks for the shortest time between a holder that did not release and
// its successor.
func (o *Outcome) margins(during func(string, time.Duration) *record.Line) {
	byKey := make(map[string][]history.Hold)
	for _, h := range o.Holds {
		if h.Kind == history.Mutex {
			byKey[h.Key] = append(byKey[h.Key], h)
		}
	}
	for key, holds := range byKey {
		slices.SortFunc(holds, func(a, b history.Hold) int { return cmp.Compare(a.Began, b.Began) })
		for i, h := range holds[:len(holds)-1] {
			if h.How != history.Lost && h.How != history.Killed {
				continue
			}
			line, margin := during(key, h.Ended), holds[i+1].Began-h.Ended
			if line.Margin == record.NoMargin || margin < line.Margin {
				line.Margin = margin
			}
		}
	}
}

// notice looks how long the holders took to find out that Redis had forgotten.
func (o *Outcome) notice(lines map[string]*record.Line) {
	for _, in := range o.Injections {
		line := lines[in.Kind]
		for _, h := range o.Holds {
			lane, rest, _ := strings.Cut(h.Key, "/")
			name, _, _ := strings.Cut(rest, "@")
			gone := slices.Contains(in.Gone, "*") || slices.Contains(in.Gone, name)
			// One that began only just then may have come after it.
			if !gone || lane != in.Lane || h.Began > in.Before || h.Ended < in.At || h.How != history.Lost {
				continue
			}
			line.Forgotten++
			line.Noticed = max(line.Noticed, h.Ended-in.At)
		}
	}
}

// Faults returns all that must not be, whatever was injected; overlaps only where
// Redis kept its word.
func (o *Outcome) Faults() []string {
	var faults []string
	add := func(what string, which ...string) {
		for _, one := range which {
			faults = append(faults, what+": "+one)
		}
	}
	forgot := o.forgetful()
	for _, in := range o.Injections {
		if len(in.Dead) > 0 {
			add("no progress", fmt.Sprintf("%s after %q: %v", in.Lane, in.Kind, in.Dead))
		}
	}
	for kind, met := range o.met() {
		if met == 0 {
			add("fault that met no hold, and proves nothing", kind)
		}
	}
	for _, overlap := range history.Overlaps(o.Holds) {
		if lane, _, _ := strings.Cut(overlap.Hold.Key, "/"); !forgot[lane] {
			add("overlap", overlap.String())
		}
	}
	kept, others := o.part(func(lane string) bool { return !forgot[lane] })
	add("went on by one ticket", history.ResumedTwice(kept)...)
	add("lock taken from its ticket", history.TakenFromTickets(kept, o.Uses)...)
	add("ticket spent too soon", history.SpentTooSoon(kept, o.Uses)...)
	add("went on by a ticket that was discarded", history.ResumedDiscarded(kept, o.Uses)...)
	add("job that was never done", o.Undone...)
	faults = append(faults, history.WrongAnswers(kept, o.Answers, o.calm)...)
	add("stale write accepted", history.StaleWrites(kept, o.Writes)...)
	add("stale write accepted", history.StaleWrites(history.PerTenure(others), o.Writes)...)
	add("fence", history.FenceFaults(kept)...)
	add("fence", history.FenceFaults(history.PerTenure(others))...)
	add("key left", o.Left...)
	add("key without TTL", o.Eternal...)
	add("harness", o.Failures...)
	return faults
}

// calm reports whether nothing was done to a key's lane between two moments.
func (o *Outcome) calm(key string, from, to time.Duration) bool {
	lane, _, _ := strings.Cut(key, "/")
	return !slices.ContainsFunc(o.Injections, func(in Injection) bool { return in.Lane == lane && in.Began < to && in.Healed > from })
}

// forgetful returns the lanes whose Redis has forgotten something on purpose.
func (o *Outcome) forgetful() map[string]bool {
	lanes := make(map[string]bool)
	for _, in := range o.Injections {
		lanes[in.Lane] = lanes[in.Lane] || in.Forgets
	}
	return lanes
}

// part returns the holds of the lanes that are in, and the others.
func (o *Outcome) part(in func(lane string) bool) (those, others []history.Hold) {
	for _, h := range o.Holds {
		if lane, _, _ := strings.Cut(h.Key, "/"); in(lane) {
			those = append(those, h)
		} else {
			others = append(others, h)
		}
	}
	return those, others
}
