package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// oldest is the first version of Redis whose commands the scripts can use.
const oldest = "7.0"

// check asks the server, before the first question, whether locks can work there:
// all of them, or none. A right that only waiters need, an old server whose free
// locks can be taken, or a Cluster's node that has the keys of the first locks
// would otherwise show when it is least expected. It costs one exchange, once; an
// error is that of the question, which was not sent. q is the first question.
//
// Whoever mends what it found need not restart the process: until all is well
// each question is preceded by it.
func (s *Store) check(ctx context.Context, client redis.UniversalClient, q *question) error {
	args := []any{"eval", checkScript.text, 1, q.args[keyPosition], s.channels}
	if !s.cluster {
		args = append(args, s.keys("a")[0], s.keys("b")[0]) // in slots 15495 and 3300
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(keyPosition)
	err := client.Process(ctx, once{cmd})
	if err != nil {
		e := s.failed(err)
		if e.Ambiguous && e.Reach == store.Answered {
			s.suits.Store(true) // the script itself failed: this server does not tell
			return nil
		}
		e.Ambiguous = false
		return e
	}
	if err := s.obstacle(ctx, client, cmd.Val()); err != nil {
		return &store.Error{Err: err, Permanent: true, Reach: store.Answered}
	}
	s.suits.Store(true)
	return nil
}

// obstacle reads check.lua's result.
func (s *Store) obstacle(ctx context.Context, client redis.UniversalClient, reply any) error {
	f, ok := reply.([]any)
	if !ok || len(f) != 4 {
		return errReply
	}
	forbidden, _ := f[2].(string)
	unknown, _ := f[3].(string)
	list := func(commands string) string { return strings.Join(strings.Fields(commands), ", ") }
	switch {
	case f[0] == int64(1):
		return fmt.Errorf("%s is too old: locks need Redis %s or newer, or Valkey", version(ctx, client), oldest)
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
func version(ctx context.Context, client redis.UniversalClient) string {
	info, _ := client.Info(ctx, "server").Result() // refused: the reply is empty
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return "Redis " + strings.TrimSpace(v)
		}
	}
	return "the Redis server"
}

// notOneServer says that the client is one for a single server, and the server is not.
func (s *Store) notOneServer() error {
	addr := s.Addr()
	if addr == "" {
		addr = "the server"
	}
	return errors.New(addr + " " + needsClusterClient)
}
