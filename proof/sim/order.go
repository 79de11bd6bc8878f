package sim

import (
	"slices"
	"time"
)

// This file has what must not be of the order of calls that want one lock for themselves alone: it is first come, first served, over all processes.

// overtakenMost is by how much later a call may have come, and some ways to Redis, than one that still waits when it has the lock.
const overtakenMost = 500 * time.Millisecond

// linesUp notes that a call waits for a lock, if it is sure to stand in a line. The caller holds mu.
func (j *judge) linesUp(r *record) {
	if !alone(r) || len(r.wish.Keys) > 1 || r.wish.Panics > 0 || r.wish.flies() || slices.ContainsFunc(r.may, func(e effect) bool { return !e.locks() || e.policy.Wait == 0 }) {
		return
	}
	key := r.wish.Keys[0]
	j.lines[key] = append(j.lines[key], r)
}

// goesOut notes that a call does not wait any more. The caller holds mu.
func (j *judge) goesOut(r *record) {
	for _, key := range r.wish.Keys {
		if at := slices.Index(j.lines[key], r); at >= 0 {
			j.lines[key] = slices.Delete(j.lines[key], at, at+1)
		}
	}
}

// overtakes judges that a call has a lock before one that came long before it, and waits still. One whose time is over asks once more, by which it gives
// its place up, and hears of that later. The caller holds mu.
func (j *judge) overtakes(r *record, key string) {
	if !alone(r) || len(r.wish.Keys) > 1 || r.wish.Kind == goesOn || r.under != nil {
		return
	}
	for _, first := range j.lines[key] {
		ways := 10 * (j.far(first) + j.far(r))
		late := r.asked.Sub(first.asked)
		if late <= overtakenMost+ways || time.Since(first.asked) >= j.leastPatience(first) || !j.calmSince(first.asked) {
			continue
		}
		j.addLockedf("process %d, %s %v: it has %s, and process %d (%s), which came %v before it, waits still", r.process, r.wish.Kind, r.wish.Keys, key,
			first.process, first.wish.Kind, late)
	}
}

// far is how long a call's process takes for a way to Redis, and for an event.
func (j *judge) far(r *record) time.Duration {
	part := j.world.parts[r.process]
	return part.Away + part.Slow
}

// calmSince reports whether nothing was wrong with anybody since then. The caller holds mu.
func (j *judge) calmSince(at time.Time) bool {
	at = at.Add(-onItsWay)
	for i := range j.world.parts {
		if j.world.ill(i, at, func(FaultKind) bool { return true }) {
			return false
		}
	}
	for _, forgot := range j.forgot {
		if forgot.After(at) {
			return false
		}
	}
	return len(j.forced) == 0
}
