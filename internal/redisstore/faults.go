package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// What the error of a command means to the engine: what errors.go reads from its text, and what is known of how it was sent.

// unanswered describes an error of package wire.
func (s *Store) unanswered(ctx context.Context, err error) *store.Error {
	failed := (*wire.Error)(nil)
	if !errors.As(err, &failed) {
		return store.AsError(err)
	}
	switch {
	case ctx.Err() != nil && errors.Is(failed.Err, context.Cause(ctx)):
		return &store.Error{Err: failed.Err, Ambiguous: failed.Sent, Pending: failed.Pending}
	case errors.Is(failed.Err, wire.ErrClosed):
		// If it is not the Store that is closed, it is its server's pool alone: see servers.prune.
		return &store.Error{Err: failed.Err, Permanent: s.dialer.ctx.Err() != nil}
	case failed.Sent && (errors.Is(failed.Err, wire.ErrTimeout) ||
		errors.Is(failed.Err, wire.ErrSilent) || errors.Is(failed.Err, wire.ErrStuck)):
		return &store.Error{Err: errBusy, Ambiguous: true, Evidence: store.Silent}
	case errors.Is(failed.Err, wire.ErrBehind):
		return &store.Error{Err: errBusy, Evidence: store.Silent}
	case failed.Sent:
		return classify(failed.Err)
	case errors.Is(failed.Err, wire.ErrTimeout):
		return s.dialer.late(errNoConnection)
	}
	e := s.dialer.verdict(failed.Err)
	e.Ambiguous = false
	return e
}

// failedAt is failed, and names the keys of c where the error is about one of them.
func (s *Store) failedAt(err error, c *command) *store.Error {
	e := s.failed(err)
	e.Err = otherData(e.Err, c)
	return e
}

// failed describes an error of the wire or of go-redis to the engine. In a Cluster it
// has the topology read anew where it may have changed: without go-redis's own
// retries nobody else would before its next minute.
func (s *Store) failed(err error) *store.Error {
	e, ok := err.(*store.Error) //nolint:errorlint // one that is described already
	if !ok {
		e = s.dialer.verdict(err)
	}
	switch {
	case s.cluster && !e.Permanent && !e.Pending:
		s.reload()
	case !s.cluster && (codeOfReply(err) == "MOVED" || codeOfReply(err) == "ASK"):
		s.moved.Store(true)
		e.Err, e.Permanent = fmt.Errorf("%w: %w", s.notOneServer(), err), true
	}
	return e
}

// elsewhere is the error of whoever wants a lock of a server that has been found to
// keep some of the keys only. Locks that are held there are renewed and released.
func (s *Store) elsewhere() error {
	if !s.moved.Load() {
		return nil
	}
	return &store.Error{Err: s.notOneServer(), Permanent: true, Evidence: store.Answered}
}

// errBusy: too much is asked of Redis, or it does not answer.
var errBusy = errors.New("no answer in time")

// reload has the topology of a Cluster be read anew, in the background.
func (s *Store) reload() {
	if c, ok := s.client.(*redis.ClusterClient); ok {
		c.ReloadState(context.Background())
	}
}

// notOneServer is the error of a client for a single server that leads to a node of a
// Cluster.
func (s *Store) notOneServer() error {
	addr := s.Addr()
	if addr == "" {
		addr = "the server"
	}
	return errors.New(addr + " " + needsClusterClient)
}
