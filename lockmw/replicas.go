package lockmw

import (
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
)

const maxAcksWithin = 500 * time.Millisecond

// WithReplicaAcks has every acquire confirmed by n of the master's replicas (n is at
// least 1), within a time of 1 to 500 ms. The command is WAIT, on the connection that
// took the lock. If too few replicas confirm, the acquire is tried again for as long as
// the policy lets it wait. Then it is taken back, and refused with ErrUnavailable. A
// hand-over takes one more round trip.
//
// Do and the middlewares called Idempotent have their lock confirmed in the same way.
// With Uncertain it must also be confirmed that the work begins, or it does not begin. An
// answer is kept even if too few replicas confirm it. The replicas have that time before
// anybody is told of the answer.
//
// This makes it less likely that a fail-over forgets a held lock. It does not rule it
// out: Sentinels may promote a replica that has not confirmed, and a renewal may be lost
// if replication has lagged since. The option is for a single master with replicas: New
// refuses it with a *redis.ClusterClient. NewQuorum asks it of each of its nodes.
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
