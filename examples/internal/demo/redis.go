package demo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	redisEnv   = "REDIS_ADDR"
	answerTime = 2 * time.Second
)

// Open returns a client of the Redis that the environment names in REDIS_ADDR,
// as host:port or redis://user:password@host:port/db, once it has answered. If
// there is none, a Redis is started inside the program. The caller closes it.
func Open(ctx context.Context) (client redis.UniversalClient, closeAll func(), err error) {
	addr := os.Getenv(redisEnv)
	if addr == "" {
		return embedded()
	}
	opts, err := options(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", redisEnv, err)
	}
	opts.MaxRetries, opts.DialerRetries = -1, 1
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = answerTime, answerTime, answerTime
	logging.Disable() // what it has to say is in the errors, too
	client = redis.NewClient(opts)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, nil, fmt.Errorf("no Redis at %s: %w\n%s names it; without it one runs inside the program", opts.Addr, err, redisEnv)
	}
	return client, func() { _ = client.Close() }, nil
}

func embedded() (redis.UniversalClient, func(), error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // keys expire as time passes
	if err := server.Start(); err != nil {
		return nil, nil, fmt.Errorf("start a Redis: %w", err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() {
		_ = client.Close()
		server.Close()
	}, nil
}

func options(addr string) (*redis.Options, error) {
	if !strings.Contains(addr, "://") {
		return &redis.Options{Addr: addr}, nil
	}
	opts, err := redis.ParseURL(addr)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err // without the URL, which has the password
	}
	return opts, err
}
