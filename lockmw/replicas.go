package lockmw

import (
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
)

const maxAcksWithin = 500 * time.Millisecond

// WithReplicaAcks has every acquire confirmed by n of the master's replicas (n is at
// least 1) within a time of 1 to 500 ms (WAIT, on the connection that took the lock). An
// acquire that too few confirm is tried again for as long as the policy lets it wait;
// then it is taken back and refused with ErrUnavailable. A hand-over takes one more
// round trip.
//
// Do and the middlewares called Idempotent have their lock confirmed in the same way, and with Uncertain also that the work begins: without that it does
// not. An answer is kept also where too few confirm it; the replicas have that time before anybody is told of it.
//
// This makes it less likely that a fail-over forgets a held lock; it does not
// rule it out. Sentinels may promote a replica that has not confirmed, and
// replication that has lagged since may lose a renewal. It is for a single master
// with replicas: New refuses it with a *redis.ClusterClient. NewQuorum asks it of each
// of its nodes.
func WithReplicaAcks(n int, within time.Duration) Option {
	return func(o *options) error {
		switch {
		case n < 1:
			return fmt.Errorf("WithReplicaAcks: %d replicas: there would be nothing to confirm", n)
		case within < time.Millisecond || within > maxAcksWithin:
			return fmt.Errorf("WithReplicaAcks: %v is not within 1 ms to %v", within, maxAcksWithin)
		}
		o.acks, o.acksWithin = n, within
		return nil
	}
}

// confirm has s ask replicas, if o says so.
func confirm(s *redisstore.Store, o options) error {
	if o.acks == 0 {
		return nil
	}
	if err := s.Confirm(o.acks, o.acksWithin); err != nil {
		return fmt.Errorf("lockmw: WithReplicaAcks: %w", err)
	}
	return nil
}
