package sim

import (
	"slices"
	"time"
)

// How long a call may wait, and how soon it may give up.

// idle is for how long a call waited while nobody had its keys, and calm that nothing was wrong: 0 where something was, for as long as that may
// leave locks behind.
func (j *judge) idle(r *record) (long time.Duration, calm bool) {
	left := 35 * time.Second // the longest TTL, and a bit
	if j.world.desk != nil {
		left = longestTTL + 5*time.Second
	}
	for process, part := range j.world.parts {
		if part.Away >= farAway || j.world.ill(process, time.Now().Add(-left), FaultKind.onTheWay) {
			return 0, false
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, at := range j.forgot {
		if time.Since(at) < left {
			return 0, false
		}
	}
	since := r.asked
	for _, key := range r.wish.Keys {
		if j.asks[key] > 0 || slices.ContainsFunc(j.active, func(other *record) bool { return slices.Contains(other.wish.Keys, key) }) {
			return 0, true
		}
		for _, later := range []time.Time{j.moved[key], j.stays[key], j.handedOn(key)} {
			if later.After(since) {
				since = later
			}
		}
	}
	return time.Since(since), true
}

// moves notes that something has become of a call's locks. The caller holds mu.
func (j *judge) moves(r *record) {
	for _, key := range r.wish.Keys {
		j.moved[key] = time.Now()
	}
}

// leastPatience is for how long a call waits before it is refused because of others, by that of its policies that says least.
func (j *judge) leastPatience(r *record) time.Duration {
	least := time.Hour
	for _, e := range r.may {
		if p := e.policy; e.locks() {
			patience := p.Wait
			if retries := time.Duration(p.Retries) * p.RetryInterval; retries > 0 && (p.Wait == 0 || retries < patience) {
				patience = retries
			}
			least = min(least, patience)
		}
	}
	return least
}

// longest is how long a call may take, by that of its policies that says most.
func (j *judge) longest(r *record) (longest time.Duration) {
	for _, e := range r.may {
		longest = max(longest, j.longestBy(r, e))
	}
	return longest
}

// atOnce is how long what needs no answer of Redis may take: it tells the observer.
func (j *judge) atOnce(r *record) time.Duration {
	return 20*time.Millisecond + 10*j.world.parts[r.process].Slow
}

func (j *judge) longestBy(r *record, e effect) time.Duration {
	if !e.locks() {
		return j.atOnce(r)
	}
	p := e.policy
	longest := p.Wait
	if p.Retries > 0 {
		if retries := time.Duration(p.Retries) * 2 * p.RetryInterval; p.Wait == 0 || retries < longest {
			longest = retries
		}
	}
	if up := r.wish.GiveUp; up > 0 {
		longest = min(longest, up)
	}
	if r.wish.flies() { // it looks for an answer when it has the lock
		longest += time.Second
	}
	if r.wish.Kind == noted { // where it is in doubt whether the begin is noted, it gives that back with the lock
		longest += time.Second
	}
	return longest + time.Duration(len(r.wish.Keys))*slack
}

func (j *judge) bound(r *record, what string, took, most time.Duration) {
	if took > most {
		j.sayf(r, "%s took %v, want at most %v", what, took, most)
	}
}
