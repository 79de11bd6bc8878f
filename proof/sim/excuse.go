package sim

import (
	"slices"
	"time"
)

// What may be why a call was refused, has lost its lock, or runs without it: what Redis was made to forget, its clock, and the way there.

const (
	// onItsWay is for how long a fault may show behind its end: what was asked before has no answer, and connections are made anew.
	onItsWay = 3 * time.Second
	// wellAfter is for how long a lock may still be passed on within its process that Redis has forgotten, and a bit.
	wellAfter = 1100 * time.Millisecond
	// farAway is, each way, where calls may be refused, and releases not be confirmed, because answers take so long.
	farAway = 50 * time.Millisecond
	// silentAway is, each way, where a server counts as silent: each reply takes 250 ms, less what the machinery of the bubble takes.
	silentAway = 120 * time.Millisecond
	// ahead is how far fences may be ahead of the server's clock, from which they begin anew where Redis has forgotten them: a second behind a
	// release by force, and another within a process.
	ahead = 2 * time.Second
)

// forgets notes that Redis no longer knows who holds a key; "" is all of them.
func (j *judge) forgets(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forgot[key] = time.Now()
}

// ofTheClock stands in forgot for what a clock that jumps ahead ends: locks, places in the queue and MinHold, at once or, where no renewal comes
// through, later. What is noted of work, and settings without an end, lasts for longer than all jumps, and Redis keeps its word about it.
const ofTheClock = "\x00"

// jumps notes that the server's clock is about to jump ahead.
func (j *judge) jumps(by time.Duration) {
	j.forgets(ofTheClock)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.skew += by
}

// clock is how far the server's clock is ahead.
func (j *judge) clock() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.skew
}

// jumpedSince reports whether the clock has jumped since then. The caller holds mu.
func (j *judge) jumpedSince(at time.Time) bool {
	return j.forgot[ofTheClock].After(at.Add(-onItsWay))
}

// kept reports whether Redis kept its word about a lease of a key. A process may pass on a lock that Redis has forgotten for a second.
func (j *judge) kept(r *record, key string) bool { return j.keptFor(r, key, wellAfter) }

// keptFor is kept for so long behind a moment at which Redis has forgotten.
func (j *judge) keptFor(r *record, key string, long time.Duration) bool {
	if j.forced[key] {
		return false
	}
	for _, at := range []time.Time{j.forgot[""], j.forgot[key], j.forgot[ofTheClock]} {
		if !at.IsZero() && r.asked.Before(at.Add(long)) {
			return false
		}
	}
	return true
}

// excused reports whether something that was done to a call's process, or to its keys, since then may be why it lost its lock, or was refused.
func (j *judge) excused(r *record, since time.Time, counts func(FaultKind) bool) bool {
	if j.world.ill(r.process, since.Add(-onItsWay), counts) {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, at := range j.forgot {
		if at.After(since.Add(-onItsWay)) {
			return true
		}
	}
	return slices.ContainsFunc(r.wish.Keys, func(key string) bool { return j.forced[key] })
}

// mayOpen reports whether Redis could not answer a call: not even over a new connection, or, where new ones are refused, over those that the
// process has.
func (j *judge) mayOpen(r *record) bool {
	if j.world.ill(r.process, r.asked.Add(-onItsWay), FaultKind.silences) {
		return true
	}
	if j.world.parts[r.process].Away+farther >= silentAway && j.world.ill(r.process, r.asked.Add(-onItsWay), func(k FaultKind) bool { return k == Far }) {
		return true
	}
	j.mu.Lock()
	serves := j.serves[r.process]
	j.mu.Unlock()
	breaks := func(k FaultKind) bool { return k.refuses() && k != NoNewOnes && k != Far }
	return j.world.ill(r.process, r.asked.Add(-onItsWay), func(k FaultKind) bool { return k == NoNewOnes }) &&
		(!serves || j.world.ill(r.process, j.world.began, breaks) || j.restarted())
}

// restarted reports whether Redis was started anew, which ends all connections.
func (j *judge) restarted() bool {
	return slices.ContainsFunc(j.world.plan.Faults, func(f Fault) bool { return f.Kind == Restarted })
}

// farAway reports whether Redis is so far away that what a policy has time for may be over before an answer comes.
func (j *judge) farAway(r *record) bool { return j.world.parts[r.process].Away >= farAway }

// tooFar reports whether Redis is too far away for a lock. A renewal is given up after a sixth of the TTL, and a try to release after 400 ms,
// where each script that the server does not know takes two round trips.
func (j *judge) tooFar(r *record) bool {
	trips := 2 * 2 * j.world.parts[r.process].Away
	return trips > r.shortestTTL()/6 || j.farAway(r)
}
