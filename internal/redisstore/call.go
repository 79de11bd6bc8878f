package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// once is a command that go-redis must not send a second time by itself: a
// release whose reply was lost would come back as "not held". Whoever asked
// knows about the lost reply and repeats the question with that knowledge.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

const (
	keyCount    = 5
	keyPosition = 3 // EVALSHA sha numkeys key …
)

// question is one script call on one lock, or on several.
type question struct {
	script *script
	name   string
	more   []string // further locks
	args   []any
}

// about returns a question on one lock.
func about(name string, s *script, args ...any) question {
	return question{script: s, name: name, args: args}
}

func (s *Store) command(ctx context.Context, verb, script string, q question) once {
	keys := keyCount * (1 + len(q.more))
	args := make([]any, 0, keyPosition+keys+len(q.args))
	args = append(args, verb, script, keys)
	args = appendKeys(args, s.keys(q.name))
	for _, name := range q.more {
		args = appendKeys(args, s.keys(name))
	}
	cmd := redis.NewCmd(ctx, append(args, q.args...)...)
	cmd.SetFirstKeyPos(keyPosition)
	return once{cmd}
}

// appendKeys appends pointers: a string would be copied to where an interface
// can point.
func appendKeys(args []any, keys *[keyCount]string) []any {
	for i := range keys {
		args = append(args, &keys[i])
	}
	return args
}

// exchange sends q and waits for the reply, bounded by ctx's deadline.
func (s *Store) exchange(ctx context.Context, q question) (any, error) {
	if s.replicas > 0 && q.script == acquireScript {
		return s.confirmed(ctx, q)
	}
	cmd := s.command(ctx, "evalsha", q.script.sha, q)
	err := s.client.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = s.command(ctx, "eval", q.script.text, q)
		err = s.client.Process(ctx, cmd)
	}
	if err != nil {
		return nil, s.failed(err)
	}
	return cmd.Val(), nil
}

// ask is exchange for callers who may leave: go-redis does not let a
// cancelled context interrupt a command on the socket. When ctx ends first,
// ask returns at once, and late (if not nil) gets what came of the question.
func (s *Store) ask(ctx context.Context, timeout time.Duration, q question, late func(any, error)) (any, error) {
	if timeout <= 0 || timeout > opTimeout {
		timeout = opTimeout
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	if ctx.Done() == nil {
		defer cancel()
		return s.exchange(bounded, q)
	}
	if err := ctx.Err(); err != nil {
		cancel()
		return nil, &store.Error{Err: err} // never sent
	}
	type reply struct {
		value any
		err   error
	}
	var taken atomic.Bool // by the caller who left, or by the reply
	replies := make(chan reply, 1)
	s.calls.Go(func() {
		defer cancel()
		value, err := s.exchange(bounded, q)
		if taken.CompareAndSwap(false, true) {
			replies <- reply{value, err}
		} else if late != nil {
			late(value, err)
		}
	})
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		if taken.CompareAndSwap(false, true) {
			return nil, &store.Error{Err: context.Cause(ctx), Ambiguous: true, Pending: true}
		}
		r := <-replies
		return r.value, r.err
	}
}

// failed describes a go-redis error to the engine and, in a Cluster, has the
// topology read anew where it may have changed: without go-redis's own
// retries nobody else would before its next minute.
func (s *Store) failed(err error) error {
	e := classify(err)
	if c, ok := s.client.(*redis.ClusterClient); ok && !e.Permanent {
		c.ReloadState(context.Background())
	}
	return e
}

// errReply is a reply that no version of the scripts gives.
var errReply = errors.New("redisstore: unexpected reply to a script")
