package lockmw

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockmw/kit/internal/store"
)

// Ping asks whether locks can work, and says what to do if not: whether Redis is there (each
// master of a Cluster, a majority of a quorum), whether it is one server and new enough, what
// the user may not run, and whether the server may evict locks. It does not count replicas:
// where WithReplicaAcks wants some that are not there, no lock is given, and Ping does not say
// so. nil: nothing else is wrong. It takes no lock, but writes a key of its own that lasts a
// millisecond. It asks anew each time, for a second at most or until ctx ends.
//
// The error Is ErrUnavailable where no lock can be had; also where a master of a Cluster does
// not answer, where several servers answer at one address, and where the user may not run
// PING. It Is ErrClosed after Close. A readiness probe looks for both. After any other error
// locks work, and something should be mended; but if it says that the user may not run WAIT,
// no lock with WithReplicaAcks is given. The error wraps one for each thing that is wrong,
// each with its remedy: their texts name commands and settings, never keys or passwords.
func (l *Locker) Ping(ctx context.Context) error {
	led := l.enter("")
	if led == nil {
		return fmt.Errorf("lockmw: ping: %w", ErrClosed)
	}
	defer led.claims.Done()
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	advice, err := l.store.Health(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("lockmw: ping: %w: %w", ErrUnavailable, store.AsError(err).Err)
	case len(advice) > 0:
		return fmt.Errorf("lockmw: ping: %w", problems(advice))
	}
	return nil
}

// problems are several errors, in one line.
type problems []error

func (p problems) Error() string {
	texts := make([]string, len(p))
	for i, err := range p {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns them.
func (p problems) Unwrap() []error { return p }
