package sim

import (
	"time"
)

// This file compares what Redis has with what the calls rely on, have given back, or want.

// tokens are those that have the locks of a call alone, as Redis says; its mutex comes before the judge's.
func (j *judge) tokens(r *record, opened bool) (all []string) {
	if opened || !alone(r) {
		return nil
	}
	for _, key := range r.wish.Keys {
		all = append(all, j.world.server.holder(key))
	}
	return all
}

// hasLocked notes whose tokens they are now. The caller holds mu.
func (j *judge) hasLocked(r *record, tokens []string) {
	for _, token := range tokens {
		j.has[token] = r
	}
	if len(tokens) == 1 {
		r.token = tokens[0]
	}
}

// outlasted judges that Redis has a call's locks for as long as the call relies on them.
func (j *judge) outlasted(r *record) {
	until := r.lease.ValidUntil()
	for _, key := range r.wish.Keys {
		ends := time.Now().Add(j.world.server.left(key) + time.Millisecond) // of which Redis tells whole ones
		j.mu.Lock()
		if until.After(ends) && j.holds(r, key) {
			j.addLockedf("process %d, %s %v: it relies on %s for %v longer than Redis has it", r.process, r.wish.Kind, r.wish.Keys, key, until.Sub(ends))
		}
		j.mu.Unlock()
	}
}

// frees judges a while after its release that a lock is not taken for a call that had no MinHold. Meanwhile it may have gone to the next of its
// process, or to one that did not want it any more.
func (j *judge) frees(r *record) {
	if r.token == "" || r.trails || r.wish.Policy.MinHold > 0 || r.wish.Policy.AsyncRelease || r.wish.flies() {
		return
	}
	part, key := j.world.parts[r.process], r.wish.Keys[0]
	long := 300*time.Millisecond + 20*part.Away + 20*part.Slow
	j.world.behind.Go(func() {
		time.Sleep(long)
		if j.excused(r, r.asked, FaultKind.refuses) || j.tooFar(r) || j.world.server.holder(key) != r.token {
			return
		}
		j.mu.Lock()
		gone := j.has[r.token] != r || j.asks[key] > 0 // to another call, maybe one for several that has not all yet
		j.mu.Unlock()
		if !gone {
			j.sayf(r, "it gave the lock back %v ago, had no MinHold, and the key is taken for it", long)
		}
	})
}

// unwanted judges that a lock is taken; it is asked only where no call wants it that may take it. For a while that may be an answer that came late,
// or what is taken away.
func (j *judge) unwanted(key string, isTaken func() bool) {
	const late = 3 * time.Second
	j.mu.Lock()
	defer j.mu.Unlock()
	if of := j.wants[key]; of != nil && (of.now > 0 || time.Since(of.last) < late) || time.Since(j.handedOn(key)) < late || !isTaken() {
		return
	}
	for at, part := range j.world.parts {
		if part.Away >= farAway || !j.world.longWell(at) {
			return
		}
	}
	j.addLockedf("%s is taken, and for %v no call has wanted it that takes its lock", key, late)
}
