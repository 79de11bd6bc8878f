package lockmw

import (
	"maps"
	"slices"
)

// Stats are numbers about one Locker at a moment, for gauges. They need no observer.
type Stats struct {
	// Names has what is held or waited for now, by the policies' Name (or Prefix). What
	// is not there is neither held nor waited for.
	Names map[string]NameStats

	// Connected says that Redis can be reached, as far as is known from what came of the
	// Locker's commands: one that is asked for nothing does not notice. It is false from
	// when nobody listens at Redis's address, or nothing was answered for 250 ms, until
	// something is. In a Cluster it is false while one of the masters that were asked
	// cannot be reached; on a quorum it is about a majority of the nodes.
	Connected bool

	// Subscribed says that messages of Redis arrive, by which waiters learn of their
	// turn. It is false until the first call may wait. Without it waiters ask Redis again
	// and again, as their policies say. A quorum has no messages.
	Subscribed bool
}

// NameStats are the numbers of one Name.
type NameStats struct {
	Held    int // leases that hold a lock. One that runs without it (FailOpen) does not
	Waiting int // calls that may wait and do not have their lock yet
}

// Stats returns the Locker's numbers as they are now. It sends nothing to Redis. It looks
// at every lease and every call that waits, but not at all of them in one moment. It is
// safe for concurrent use, and after Close.
func (l *Locker) Stats() Stats {
	s := Stats{
		Names:      make(map[string]NameStats),
		Connected:  !l.outage.Troubled(),
		Subscribed: l.subscriber.session() != 0,
	}
	for name, n := range l.waiters.CountByName() {
		s.Names[name] = NameStats{Waiting: n}
	}
	for led := range l.ledgers.All() {
		led.mu.Lock()
		leases := slices.Collect(maps.Keys(led.leases))
		led.mu.Unlock()
		for _, lease := range leases {
			if lease.tenure() != nil {
				of := s.Names[lease.policy.Name]
				of.Held++
				s.Names[lease.policy.Name] = of
			}
		}
	}
	return s
}
