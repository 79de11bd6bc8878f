package sim

import "slices"

// Shrink returns the smallest plan it finds that fails as p does: without what can be left out. fails says whether a plan fails.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	for {
		smaller, ok := smallerThan(p, fails)
		if !ok {
			return p
		}
		p = smaller
	}
}

// smallerThan returns a plan that has one thing less, and fails.
func smallerThan(p Plan, fails func(Plan) bool) (Plan, bool) {
	for _, next := range lesser(p) {
		if fails(next) {
			return next, true
		}
	}
	return p, false
}

// lesser are the plans that have one thing less, those first that leave out most.
func lesser(p Plan) (all []Plan) {
	if p.Turns > 1 {
		next := p
		next.Turns = p.Turns / 2
		all = append(all, next)
	}
	for i := range p.Processes {
		if len(p.Processes) == 1 {
			break
		}
		next := p
		next.Processes = slices.Delete(slices.Clone(p.Processes), i, i+1)
		next.Faults = nil
		for _, f := range p.Faults {
			if f.Process == i {
				continue
			}
			if f.Process > i {
				f.Process--
			}
			next.Faults = append(next.Faults, f)
		}
		all = append(all, next)
	}
	if p.Gaps > 0 {
		next := p
		next.Gaps = 0
		all = append(all, next)
	}
	if p.Operator {
		next := p
		next.Operator = false
		all = append(all, next)
	}
	for i, n := 0, max(1, len(p.Changes)/4); i < len(p.Changes); i += n { // without all it would be another plan: nobody would read settings
		if next := p; len(p.Changes) > 1 {
			next.Changes = slices.Delete(slices.Clone(p.Changes), i, min(i+n, len(p.Changes)))
			all = append(all, next)
		}
	}
	for i := range p.Faults {
		next := p
		next.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		all = append(all, next)
	}
	for i, process := range p.Processes {
		for _, lesser := range lesserProcesses(process) {
			next := p
			next.Processes = slices.Clone(p.Processes)
			next.Processes[i] = lesser
			all = append(all, next)
		}
	}
	return all
}

// lesserProcesses are the processes that have one thing less than p.
func lesserProcesses(p Process) (all []Process) {
	for n := range p.Callers {
		if len(p.Callers) > 1 {
			next := p
			next.Callers = slices.Delete(slices.Clone(p.Callers), n, n+1)
			all = append(all, next)
		}
	}
	for n, c := range p.Callers {
		if c.Turns > 1 {
			next := p
			next.Callers = slices.Clone(p.Callers)
			next.Callers[n].Turns = c.Turns / 2
			all = append(all, next)
		}
		for k, w := range c.Wishes {
			if w.Trails > 0 {
				next := p
				next.Callers = slices.Clone(p.Callers)
				next.Callers[n].Wishes = slices.Clone(c.Wishes)
				next.Callers[n].Wishes[k].Trails = 0
				all = append(all, next)
			}
			if w.Panics > 0 {
				next := p
				next.Callers = slices.Clone(p.Callers)
				next.Callers[n].Wishes = slices.Clone(c.Wishes)
				next.Callers[n].Wishes[k].Panics = 0
				all = append(all, next)
			}
			if w.Policy.AsyncRelease {
				next := p
				next.Callers = slices.Clone(p.Callers)
				next.Callers[n].Wishes = slices.Clone(c.Wishes)
				next.Callers[n].Wishes[k].Policy.AsyncRelease = false
				all = append(all, next)
			}
			if len(c.Wishes) > 1 {
				next := p
				next.Callers = slices.Clone(p.Callers)
				next.Callers[n].Wishes = slices.Delete(slices.Clone(c.Wishes), k, k+1)
				all = append(all, next)
			}
		}
	}
	if p.Slow > 0 || p.Away > 0 {
		next := p
		next.Slow, next.Away = 0, 0
		all = append(all, next)
	}
	return all
}
