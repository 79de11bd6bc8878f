package lockmw

import (
	"context"
	"fmt"

	"github.com/lockmw/kit/internal/store"
)

// Ping asks whether locks can work: whether Redis is there (each master of a Cluster, a
// majority of a quorum), whether it is one server and new enough, and whether the user may run
// what locks need. nil means that they work. What should be mended although they work is no
// error, such as a maxmemory-policy by which the server may evict locks: Doctor tells it. Ping
// takes no lock, but writes a key of its own that lasts a millisecond. It asks anew each time,
// for a second at most or until ctx ends.
//
// The error Is ErrClosed after Close, and otherwise ErrUnavailable. ErrUnavailable means that
// no lock can be had, that a master of a Cluster does not answer, that several servers answer
// at one address, or that the user may not run PING. With WithReplicaAcks it may also mean
// that the user may not run WAIT, or that the server has fewer replicas than are wanted. The
// text of the error has the remedy. It names commands and settings, and never keys or
// passwords.
func (l *Locker) Ping(ctx context.Context) error {
	_, err := l.health(ctx)
	return err
}

// health is Ping, and what should be mended although locks work.
func (l *Locker) health(ctx context.Context) (advice []error, err error) {
	led := l.enter("")
	if led == nil {
		return nil, fmt.Errorf("lockmw: ping: %w", ErrClosed)
	}
	defer led.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	advice, err = l.store.Health(ctx)
	if err != nil {
		return nil, fmt.Errorf("lockmw: ping: %w: %w", ErrUnavailable, store.AsError(err).Err)
	}
	return advice, nil
}

// answersHealth is whether the answers that are kept are safe where they are.
func (l *Locker) answersHealth(ctx context.Context) (facts []string, advice []error) {
	led := l.enter("")
	if led == nil {
		return nil, nil
	}
	defer led.calls.Done()
	return l.store.AnswersHealth(ctx)
}
