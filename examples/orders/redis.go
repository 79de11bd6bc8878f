package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A database is the Redis that the locks live in.
type database struct {
	addr  string // as in REDIS_ADDR
	shown string // host:port, without a password
	pid   string // of a redis-server that the program has started
	close func()
	ping  func(context.Context) error
}

// openRedis returns the Redis that REDIS_ADDR names, once it has answered, or
// starts an embedded one.
func openRedis(ctx context.Context) (*database, error) {
	addr := os.Getenv(redisEnv)
	if addr == "" {
		return embeddedRedis()
	}
	return namedRedis(ctx, addr)
}

func namedRedis(ctx context.Context, addr string) (*database, error) {
	opts, err := redisOptions(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redisEnv, err)
	}
	opts.MaxRetries, opts.DialerRetries, opts.ContextTimeoutEnabled = -1, 1, true
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = pingTimeout, pingTimeout, pingTimeout
	logging.Disable() // what it has to say is in the errors, too
	client := redis.NewClient(opts)
	db := &database{
		addr:  addr,
		shown: opts.Addr,
		close: func() { _ = client.Close() },
		ping:  func(ctx context.Context) error { return client.Ping(ctx).Err() },
	}
	if err := db.ping(ctx); err != nil {
		db.close()
		return nil, fmt.Errorf("no Redis at %q: %w\n%s names it; without it an embedded one is used", db.shown, err, redisEnv)
	}
	return db, nil
}

// embeddedRedis starts a Redis in this process. It listens on loopback, so
// that the shop processes reach it.
func embeddedRedis() (*database, error) {
	debug.SetGCPercent(400) // it leaves much garbage: a third less time for the locked run
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // keys expire as time passes, like in a real one
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	return &database{
		addr:  m.Addr(),
		shown: "embedded, at " + m.Addr(),
		close: m.Close,
		ping:  func(context.Context) error { return nil },
	}, nil
}

func (d *database) String() string { return d.shown }

// redisOptions reads REDIS_ADDR. The pool is small, so that a crowd at a shop
// becomes a short line for a connection rather than a crowd at Redis.
func redisOptions(addr string) (*redis.Options, error) {
	opts := &redis.Options{Addr: addr}
	if strings.Contains(addr, "://") {
		var err error
		if opts, err = redis.ParseURL(addr); err != nil {
			if bad, ok := errors.AsType[*url.Error](err); ok {
				err = bad.Err // without the URL, which has the password
			}
			return nil, err
		}
	}
	opts.PoolSize = redisConns
	return opts, nil
}

const (
	redisConns  = 16
	pingTimeout = 2 * time.Second
	pingsMissed = 3 // in a row, then Redis is gone
)

// watch cancels with a reason when Redis goes away, where the clients would
// wait for it until the policy's budget ends. The returned func stops it.
func (d *database) watch(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for missed := 0; missed < pingsMissed; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := d.ping(ctx); err == nil {
				missed = 0
			} else if missed++; missed == pingsMissed {
				cancel(fmt.Errorf("the Redis at %s does not answer any more: %w", d, err))
			}
		}
	}()
	return func() {
		end()
		<-done
	}
}
