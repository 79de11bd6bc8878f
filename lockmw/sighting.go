package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// A sighting is what an answer of the store told of a lock that others hold.
type sighting struct {
	answered time.Time // when the answer came; zero: there was none
	left     time.Duration
	holder   Holder // of several the oldest, if that is known; without an Instance: not known
	fence    int64  // of the holder; 0: not known
	siblings string // tokens of this Locker that hold the lock
	waiting  int    // in the queue of the store
	cools    bool   // nobody is at work: the lock stays taken for left
}

func newSighting(a store.Answer) sighting {
	return sighting{
		answered: time.Now(), left: a.Left, holder: Holder(a.Holder), fence: a.HolderFence,
		siblings: a.Siblings, waiting: a.Waiting, cools: a.CoolingDown,
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
		holder: Holder{
			Instance: lease.locker.Instance(), Note: store.Printable(store.Beginning(lease.note, store.MostOfNote)),
			Age: time.Since(lease.start), Left: left,
		},
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
