package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// A onekey is the form of a command about a mutex that concerns the lock's own key
// alone. While a Cluster moves a slot, a command on several of its keys is refused,
// and one on a single key is not. onekey.lua carries it out.
type onekey struct {
	do    string // acquire, renew or release; empty: the command has no such form
	ms    int64
	entry string // the place in the queue that is given up as well, or empty
}

// oneKeyOf returns the form of a command about r, if that is a mutex.
func oneKeyOf(r store.Ref, do string, ms int64) onekey {
	if r.Kind != (store.Kind{}) {
		return onekey{}
	}
	return onekey{do: do, ms: ms}
}

// entry is a token's member of the queue's sorted set, as queue.lua writes it.
func entry(r store.Ref) string { return r.Token + ":" + terms(r) }

// moving reports whether a command was refused because a Cluster moves its keys
// just now, and can be put in another form.
func (s *Store) moving(err error, c *command) bool {
	return s.cluster && c.onekey.do != "" && redis.HasErrorPrefix(err, "TRYAGAIN")
}

// withOneKey puts c in the form in which it concerns one key. go-redis follows the
// key to where it is (ASK).
func (s *Store) withOneKey(ctx context.Context, c *command) (any, error) {
	form := c.withOneKey()
	if c.onekey.do == "acquire" {
		fence, err := s.one(ctx, "get", c.args[fenceAt])
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		form.args[len(form.args)-1] = fence
	}
	value, err := s.one(ctx, form.named(true)...)
	if unknownScript(err) {
		value, err = s.one(ctx, form.named(false)...)
	}
	if err == nil && c.onekey.entry != "" {
		_, err = s.one(ctx, "zrem", c.args[queueAt], c.onekey.entry)
	}
	return value, err
}

// withOneKey returns the form of c that concerns the lock's own key only.
func (c *command) withOneKey() *command {
	return &command{
		script: oneKeyScript,
		args:   []any{nil, nil, 1, c.args[lockAt], c.args[tokenAt], c.onekey.do, c.onekey.ms, c.fence},
	}
}

// one has a command carried out that concerns one key.
func (s *Store) one(ctx context.Context, args ...any) (any, error) {
	cmd := once{redis.NewCmd(ctx, plain(args)...)}
	if args[0] == "evalsha" || args[0] == "eval" {
		cmd.SetFirstKeyPos(keyPosition)
	}
	err := s.client.Process(ctx, cmd)
	return cmd.Val(), err
}
