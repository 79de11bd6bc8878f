package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
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

// carry implements a sender's carry.
func (s *Store) carry(batch []*call) {
	if len(batch) == 1 {
		c := batch[0]
		c.end(s.exchange(timed{context.WithoutCancel(c.ctx), c.deadline}, c.question))
		return
	}
	s.together(batch, "evalsha", func(c *call) string { return c.script.sha })
}

// timed is a context that has a deadline, which bounds the exchange on the
// connection, and no timer of its own.
type timed struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (t timed) Deadline() (time.Time, bool) { return t.deadline, true }

// exchange sends q and waits for the reply, bounded by ctx's deadline.
func (s *Store) exchange(ctx context.Context, q question) (any, error) {
	if s.replicas > 0 && q.script == acquireScript {
		return s.confirmed(ctx, q)
	}
	cmd := s.command(ctx, "evalsha", q.script.sha, q)
	err := s.client.Process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = s.command(ctx, "eval", q.script.text, q)
		err = s.client.Process(ctx, cmd)
	}
	if err != nil {
		return nil, s.failed(err)
	}
	return cmd.Val(), nil
}

// together sends the batch in one pipeline, and what the server has no script
// for once more with its text.
func (s *Store) together(batch []*call, verb string, script func(*call) string) {
	deadline := batch[0].deadline
	for _, c := range batch[1:] {
		if c.deadline.After(deadline) {
			deadline = c.deadline // callers with less time do not wait until then
		}
	}
	ctx := timed{context.Background(), deadline}
	pipe := s.client.Pipeline()
	cmds := make([]once, len(batch))
	for i, c := range batch {
		cmds[i] = s.command(ctx, verb, script(c), c.question)
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	var unknown []*call
	for i, c := range batch {
		switch err := cmds[i].Err(); {
		case err == nil:
			c.end(cmds[i].Val(), nil)
		case verb == "evalsha" && redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, c)
		default:
			c.end(nil, s.failed(err))
		}
	}
	if unknown != nil {
		s.together(unknown, "eval", func(c *call) string { return c.script.text })
	}
}

// ask puts q, bounded by timeout. go-redis does not let a cancelled context
// interrupt a command on the socket, so when ctx ends first, ask returns at
// once, and late (if not nil) gets what came of the question.
func (s *Store) ask(ctx context.Context, timeout time.Duration, q question, late func(any, error)) (any, error) {
	if timeout <= 0 || timeout > opTimeout {
		timeout = opTimeout
	}
	return s.sender.do(ctx, &call{question: q, deadline: time.Now().Add(timeout), late: late})
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

// errBusy: too much is asked of Redis, or it does not answer.
var errBusy = errors.New("redisstore: no answer in time")

// errReply is a reply that no version of the scripts gives.
var errReply = errors.New("redisstore: unexpected reply to a script")
