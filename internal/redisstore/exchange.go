package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// What the engine asks for (Acquire, Release and so on) is put into a command, the bytes of a
// script call, and a command is sent in a wire.Call, which brings the reply back.
//
// Calls go over the connections of package wire. What is rare goes the way of go-redis,
// which knows it: a Cluster's redirections, and a grant that replicas confirm. go-redis
// has connections of its own for that, and a goroutine for each command.
//
// At the end of this file is what the errors of either way mean.

// lastWord is how much longer than its deadline a command that goes go-redis's way is
// waited for: if there was no connection, it was not sent.
const lastWord = 100 * time.Millisecond

// send sends c, about the lock called name, and returns the reply, which has time until
// then. When ctx ends first it returns as soon as wire.Pool.Do does, and late (if not nil) gets what came of it.
// c comes from s.command and is not used afterwards.
func (s *Store) send(
	ctx context.Context, until time.Time, name string, c *command, late func(any, error),
) (any, error) {
	if ctx.Err() != nil {
		return nil, &store.Error{Err: context.Cause(ctx)} // never sent
	}
	c.call.Deadline = until
	if !s.suits.Load() {
		if err := s.check(ctx, name, c); err != nil {
			return nil, err
		}
	}
	pool := s.pool(name)
	if pool == nil || s.replicas > 0 && c.script == acquireScript {
		return s.aside(ctx, c, late)
	}
	if late != nil {
		c.call.Late = func(replies []byte, err error) {
			value, err := s.reply(ctx, replies, err)
			if err != nil {
				err = s.failedAt(err, c)
			}
			late(value, err)
		}
	}
	value, reusable, err := s.sendOver(ctx, pool, c, true)
	if unknownScript(err) {
		value, reusable, err = s.sendOver(ctx, pool, c, false)
	}
	if s.cluster && redirected(err) {
		return s.aside(ctx, c, late)
	}
	if err != nil {
		err = s.failedAt(err, c)
	}
	if reusable {
		s.free(c)
	}
	return value, err
}

// sendOver sends c over the wire. reusable says that nobody uses c any more.
func (s *Store) sendOver(
	ctx context.Context, pool *wire.Pool, c *command, byHash bool,
) (value any, reusable bool, err error) {
	c.call.Commands, c.call.Replies = c.appendTo(c.call.Commands[:0], byHash), 1
	if reusable, err = pool.Do(ctx, &c.call); err != nil {
		return nil, reusable, s.unanswered(ctx, err) // replies may come just now
	}
	value, err = s.reply(ctx, c.call.Reply, nil)
	return value, reusable, err
}

// reply reads the one reply of a call. An error is a redis.Error, if the server replied
// with it, or a *store.Error.
func (s *Store) reply(ctx context.Context, replies []byte, err error) (any, error) {
	if err != nil {
		return nil, s.unanswered(ctx, err)
	}
	value, _, err := wire.Parse(replies)
	if refusal, ok := value.(wire.Refusal); ok {
		return nil, refusal
	}
	if err != nil {
		return nil, &store.Error{Err: err, Ambiguous: true}
	}
	return value, nil
}

// redirected reports whether a Cluster's node leaves it to go-redis to find who answers.
func redirected(err error) bool {
	for _, code := range [...]string{"MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN"} {
		if err != nil && redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}

// aside has c go the way of go-redis, until its deadline. Otherwise it is like send.
func (s *Store) aside(ctx context.Context, c *command, late func(any, error)) (any, error) {
	type outcome struct {
		value any
		err   error
	}
	done, gone := make(chan outcome), make(chan struct{})
	deadline := c.call.Deadline
	s.running.Go(func() {
		bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
		value, err := s.exchange(bounded, c)
		select {
		case done <- outcome{value, err}:
		case <-gone:
			if late != nil {
				late(value, err)
			}
		}
	})
	timeout := time.NewTimer(time.Until(deadline) + lastWord)
	defer timeout.Stop()
	select {
	case o := <-done:
		return o.value, o.err
	case <-timeout.C:
		late = nil
		close(gone)
		return nil, &store.Error{Err: errBusy, Ambiguous: true, Reach: store.Silent}
	case <-ctx.Done():
		close(gone)
		return nil, &store.Error{Err: context.Cause(ctx), Ambiguous: true, Pending: true}
	}
}

// exchange sends c with go-redis and waits for the reply, bounded by ctx's deadline.
func (s *Store) exchange(ctx context.Context, c *command) (any, error) {
	if s.replicas > 0 && c.script == acquireScript {
		return s.confirmed(ctx, c)
	}
	cmd := c.goRedis(ctx, true)
	err := s.client.Process(ctx, cmd)
	if unknownScript(err) {
		cmd = c.goRedis(ctx, false)
		err = s.client.Process(ctx, cmd)
	}
	value := cmd.Val()
	if s.moving(err, c) {
		value, err = s.withOneKey(ctx, c)
	}
	if err != nil {
		return nil, s.failedAt(err, c)
	}
	return value, nil
}

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
		return &store.Error{Err: errBusy, Ambiguous: true, Reach: store.Silent}
	case errors.Is(failed.Err, wire.ErrBehind):
		return &store.Error{Err: errBusy, Reach: store.Silent}
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
	c, cluster := s.client.(*redis.ClusterClient)
	switch {
	case cluster && !e.Permanent && !e.Pending:
		c.ReloadState(context.Background())
	case !cluster && (redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")):
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
	return &store.Error{Err: s.notOneServer(), Permanent: true, Reach: store.Answered}
}

// errBusy: too much is asked of Redis, or it does not answer.
var errBusy = errors.New("no answer in time")
