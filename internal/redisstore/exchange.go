package redisstore

import (
	"context"
	"time"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// What the engine asks for (Acquire, Release and so on) is put into a command, the bytes of a
// script call, and a command is sent in a wire.Call, which brings the reply back. Where a server
// leaves it to another to answer, the command goes there (redirect.go).
//
// Calls go over the connections of package wire. What replicas confirm goes over those
// of go-redis: WAIT keeps its connection from everything else until it returns. What the errors
// mean is in faults.go.

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
	if s.replicas > 0 && c.isConfirmed() {
		return s.aside(ctx, until, late, func(ctx context.Context) (any, error) { return s.confirmed(ctx, c) })
	}
	value, reusable, err := s.carry(ctx, name, c, late)
	if reusable {
		s.free(c)
	}
	return value, err
}

// carry is send for a command whose server suits. reusable says that nobody uses c any more.
func (s *Store) carry(
	ctx context.Context, name string, c *command, late func(any, error),
) (value any, reusable bool, err error) {
	at, err := s.wayTo(ctx, c.call.Deadline, name)
	if err != nil {
		return nil, true, err
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
	value, reusable, err = s.follow(ctx, at, c)
	if reusable && s.moving(err, c) {
		value, err = s.aside(ctx, c.call.Deadline, late, func(ctx context.Context) (any, error) {
			return s.withOneKey(context.WithoutCancel(ctx), name, c) // each of its commands has c's deadline
		})
		return value, false, err
	}
	if err != nil {
		err = s.failedAt(err, c)
	}
	return value, reusable, err
}

// ask sends a command about the lock called name that is no script of a lock, and returns the reply. What
// the error means is for the caller to say, see failed.
func (s *Store) ask(ctx context.Context, until time.Time, name string, args ...any) (any, error) {
	at, err := s.wayTo(ctx, until, name)
	if err != nil {
		return nil, err
	}
	c := &command{args: args}
	c.call.Deadline = until
	value, _, err := s.follow(ctx, at, c)
	return value, err
}

// follow sends c, and once more wherever the reply says that it is to be: by its text to a server
// that does not know the script, and to others.
func (s *Store) follow(ctx context.Context, at way, c *command) (value any, reusable bool, err error) {
	eras := s.dialer.eras.Load()
	for {
		if value, reusable, err = s.sendOver(ctx, at, c); err == nil || !reusable {
			return value, reusable, err
		}
		next, ok := s.next(at, err, eras)
		if !ok {
			return value, reusable, err
		}
		at = next
	}
}

// sendOver sends c on its way. reusable says that nobody uses c any more.
func (s *Store) sendOver(ctx context.Context, at way, c *command) (value any, reusable bool, err error) {
	bytes, replies := c.call.Commands[:0], 1
	if at.asking {
		bytes, replies = wire.AppendString(wire.AppendCommand(bytes, 1), "ASKING"), 2
	}
	c.call.Commands, c.call.Replies = c.appendTo(bytes, !at.byText), replies
	if reusable, err = at.pool.Do(ctx, &c.call); err != nil {
		return nil, reusable, s.unanswered(ctx, err) // replies may come just now
	}
	value, err = s.reply(ctx, c.call.Reply, nil)
	return value, reusable, err
}

// reply reads the last reply of a call. An error is a redis.Error, if the server replied with it, or
// a *store.Error.
func (s *Store) reply(ctx context.Context, replies []byte, err error) (any, error) {
	if err != nil {
		return nil, s.unanswered(ctx, err)
	}
	for {
		var value any
		if value, replies, err = wire.Parse(replies); err != nil {
			return nil, &store.Error{Err: err, Ambiguous: true}
		}
		if len(replies) > 0 {
			continue // ASKING may be refused where the command behind it is not
		}
		if refusal, ok := value.(wire.Refusal); ok {
			return nil, refusal
		}
		return value, nil
	}
}

// aside has do, which sends one command or several and ends at until, go on when its caller leaves.
// Otherwise it is like send.
func (s *Store) aside(
	ctx context.Context, until time.Time, late func(any, error), do func(context.Context) (any, error),
) (any, error) {
	type outcome struct {
		value any
		err   error
	}
	left := ctx.Done() // before anything is under way that would wait for the caller: it may panic
	done, gone := make(chan outcome), make(chan struct{})
	s.running.Go(func() {
		bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		value, err := do(bounded)
		select {
		case done <- outcome{value, err}:
		case <-gone:
			if late != nil {
				late(value, err)
			}
		}
	})
	timeout := time.NewTimer(time.Until(until) + lastWord)
	defer timeout.Stop()
	select {
	case o := <-done:
		return o.value, o.err
	case <-timeout.C:
		late = nil
		close(gone)
		return nil, &store.Error{Err: errBusy, Ambiguous: true, Evidence: store.Silent}
	case <-left:
		close(gone)
		return nil, &store.Error{Err: context.Cause(ctx), Ambiguous: true, Pending: true}
	}
}
