package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/holds"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// A sighting is what an answer of the store told of a lock that others hold.
type sighting struct {
	answered time.Time // when the answer came; zero: there was none
	left     time.Duration
	holder   Holder // with an Instance only if one holds the lock exclusively
	fence    int64  // of the holder; 0: not known
	siblings string // tokens of this Locker that hold the lock
	waiting  int    // in the queue of the store
}

func newSighting(a store.Answer) sighting {
	return sighting{
		answered: time.Now(), left: a.Left, holder: Holder(a.Holder), fence: a.HolderFence,
		siblings: a.Siblings, waiting: a.Waiting,
	}
}

// freshFor is how long a sighting tells who holds a lock: the first of a queue asks
// more often than that.
const freshFor = time.Second

// fresh reports whether the sighting is recent.
func (s sighting) fresh() bool { return !s.answered.IsZero() && time.Since(s.answered) <= freshFor }

// byNow returns the sighting as it is now, if the lock did not change hands since.
func (s sighting) byNow() sighting {
	since := time.Since(s.answered)
	s.answered = s.answered.Add(since)
	s.left = max(s.left-since, 0)
	if s.holder.Age > 0 {
		s.holder.Age += since
	}
	if s.holder.Left > 0 {
		s.holder.Left = max(s.holder.Left-since, 0)
	}
	return s
}

// sightingOf is what this Locker knows of a lock that it holds by lease.
func sightingOf(lease *Lease) sighting {
	left := remains(lease.tenure())
	return sighting{
		answered: time.Now(), left: left, fence: lease.fence, siblings: lease.ref.Token,
		holder: Holder{Instance: lease.locker.Instance(), Age: time.Since(lease.start), Left: left},
	}
}

// sightingIn returns what the last answer to any waiter of this Locker told of a lock.
func sightingIn(left waitqueue.Left) sighting {
	if lease := tenureOf(left.Holder).lease(); lease != nil {
		return sightingOf(lease)
	}
	seen, _ := left.Seen.(sighting)
	return seen
}

// tenureOf returns the tenure that a queue of waiters knows as the one who passes a lock
// on, or nil.
func tenureOf(holder any) *tenure {
	t, _ := holder.(*tenure)
	return t
}

// remains is about what is left of the tenure's TTL in the store, while it is renewed; 0
// if there is none.
func remains(t *tenure) time.Duration {
	if t == nil {
		return 0
	}
	ttl := t.ref.TTL
	return max(ttl-time.Since(t.began), ttl-ttl/3) // it is renewed after a third
}

// who returns who has the lock as far as the claim knows, or nil, and whether it is a
// lease of this Locker.
func (c *claim) who() (holder *Holder, own bool) {
	if !c.seen.fresh() {
		return nil, false
	}
	seen := c.seen.byNow()
	if lease := c.locker.leaseOf(c.ref.Key, seen.siblings); lease != nil {
		mine := sightingOf(lease).holder
		return &mine, true
	}
	if seen.holder.Instance == "" {
		return nil, false
	}
	return &seen.holder, false
}

// learn notes what the claim has seen of how long others hold the lock. over says
// that the hold it has seen is over, so that it was held until now.
func (c *claim) learn(over bool) {
	seen := c.seen
	if seen.fence == 0 || seen.holder.Age == 0 || seen.holder.Instance == c.locker.Instance() {
		return // a hold of this Locker is noted when it is released
	}
	if over && seen.fresh() {
		seen = seen.byNow()
	}
	c.locker.history.Add(c.policy.Name, seen.fence, seen.holder.Age)
}

// comesFree estimates when a caller who asks again may find the lock free, or at
// least no queue: see Policy.RetryAfter.
func (c *claim) comesFree() time.Duration {
	lock := holds.Lock{
		Name: c.policy.Name, TTL: c.ref.TTL, Least: c.policy.MinHold,
		Left: c.ref.TTL, Turns: c.alsoWaiting / max(c.policy.Permits, 1),
	}
	if c.seen.fresh() {
		seen := c.seen.byNow()
		lock.Left, lock.Age, lock.Fence = seen.left, seen.holder.Age, seen.fence
	}
	return c.locker.history.ComesFree(lock)
}
