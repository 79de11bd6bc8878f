package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// oldest is the first version of Redis whose commands the scripts can use.
const oldest = "7.0"

// check asks the server, before the first command c about the lock called name is
// sent, whether all kinds of locks can work there. Without it three mistakes would show
// late, at one lock among many: a missing right that only waiters need, a server too
// old for some of the scripts, and a client of one Cluster node that happens to have the
// first keys. It costs one exchange; each caller that comes before the first reply sends
// its own. Its error is the error of c, which is not sent then.
//
// Until all is well it comes before each command, so as soon as the mistake is mended
// locks work without a restart of the process.
func (s *Store) check(ctx context.Context, name string, c *command) error {
	args := []any{"eval", checkScript.text, 1, c.args[keyPosition], s.channels}
	if !s.cluster {
		args = append(args, s.keys("a")[0], s.keys("b")[0]) // in slots 15495 and 3300
	}
	reply, err := s.checked(ctx, name, args, c.call.Deadline)
	if err != nil {
		e := s.failed(err)
		if e.Ambiguous && e.Reach == store.Answered {
			s.suits.Store(true) // the check itself does not run on this server, so locks are tried without it
			return nil
		}
		e.Ambiguous, e.Pending = false, false
		return e
	}
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.call.Deadline)
	defer cancel()
	if err := s.obstacle(bounded, reply); err != nil {
		return &store.Error{Err: err, Permanent: true, Reach: store.Answered}
	}
	s.suits.Store(true)
	return nil
}

// checked sends check.lua, and returns its reply.
func (s *Store) checked(ctx context.Context, name string, args []any, deadline time.Time) (any, error) {
	if pool := s.pool(name); pool != nil {
		call := &wire.Call{Commands: appendArgs(nil, args), Replies: 1, Deadline: deadline}
		if _, err := pool.Do(ctx, call); err != nil {
			return nil, s.unanswered(ctx, err)
		}
		return s.reply(ctx, call.Reply, nil)
	}
	bounded, cancel := context.WithDeadline(ctx, deadline) // a Cluster of which nothing is known yet
	defer cancel()
	cmd := redis.NewCmd(bounded, plain(args)...)
	cmd.SetFirstKeyPos(keyPosition)
	err := s.client.Process(bounded, once{cmd})
	return cmd.Val(), err
}

// obstacle returns what check.lua found that keeps locks from working, or nil.
func (s *Store) obstacle(ctx context.Context, reply any) error {
	f, ok := reply.([]any)
	if !ok || len(f) != 4 {
		return errReply
	}
	forbidden, _ := f[2].(string)
	unknown, _ := f[3].(string)
	list := func(commands string) string { return strings.Join(strings.Fields(commands), ", ") }
	switch {
	case f[0] == int64(1):
		return fmt.Errorf("%s is too old: locks need Redis %s or newer, or Valkey", s.version(ctx), oldest)
	case f[1] == int64(1):
		return s.notOneServer()
	case unknown != "":
		return fmt.Errorf("the server does not know %s, which locks need (is it renamed?)", list(unknown))
	case forbidden != "":
		return fmt.Errorf("NOPERM: the Redis user may not run %s, %s", list(forbidden), seeACL)
	}
	return nil
}

// version names the server's version, if it tells.
func (s *Store) version(ctx context.Context) string {
	info, _ := s.section(ctx, "server") // empty if that is refused
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return "Redis " + strings.TrimSpace(v)
		}
	}
	return "the Redis server"
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
