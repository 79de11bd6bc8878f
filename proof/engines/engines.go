// Package engines puts this library and its rivals behind one small interface,
// so that one worker and one nemesis serve all. Each rival is used as its own
// documentation recommends for work that may outlast the TTL: rivals.go, and watched.go
// for those that renew nothing by themselves. ours.go is this library.
package engines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/kit/lockmw"
)

// Ask is one acquire.
type Ask struct {
	Key     string
	TTL     time.Duration
	Wait    time.Duration
	Shared  bool // a reader; ours only
	Permits int  // a semaphore; ours only
}

// Engine takes locks.
type Engine interface {
	Acquire(ctx context.Context, ask Ask) (Hold, error)
	Close() error
}

// HandsOn is what an engine can do as well whose locks are handed on by tickets: ours does, but for a quorum. Its holds have the
// method Ticket of a lockmw.Lease.
type HandsOn interface {
	// Resume goes on with the work for which a ticket was issued. The error Is lockmw.ErrTicketSpent where that is spent.
	Resume(ctx context.Context, ticket string, ask Ask) (Hold, error)
	// Discard lets go of the lock that a ticket has.
	Discard(ctx context.Context, ticket string) error
}

// Answers is what an engine can do as well that makes one answer for all who ask: ours does, but for a quorum.
type Answers interface {
	// Do is lockmw.Do. work is given the lock under which it runs.
	Do(ctx context.Context, key string, f lockmw.Flight, work func(Hold) (string, error)) (answer string, shared bool, err error)
	// Resolve is that of a lockmw.Locker.
	Resolve(ctx context.Context, key, id string, how lockmw.Resolution) error
}

// Hold is a lock that is held.
type Hold interface {
	// Context ends when the engine finds out that the lock is lost, or when it is
	// released.
	Context() context.Context
	// ValidUntil is until when the engine says that the lock may be trusted; the
	// zero time if it does not say.
	ValidUntil() time.Time
	// Fence returns 0 if the engine has none.
	Fence() int64
	Release(ctx context.Context) error
}

// Names of the engines.
const (
	Ours        = "lockmw"
	Redislock   = "redislock 0.9.4, watchdog"
	Redsync     = "redsync 4.18.1"
	Rueidislock = "rueidislock 1.0.79"
)

// All lists the engines, this library first.
func All() []string { return []string{Ours, Redislock, Redsync, Rueidislock} }

// Kinds of what locks are kept in.
const (
	Single   = ""
	Cluster  = "cluster"
	Sentinel = "sentinel"
	Quorum   = "quorum"
)

// Redis is what locks are kept in, and how to find it.
type Redis struct {
	Kind   string   `json:"kind,omitempty"`
	Addrs  []string `json:"addrs"`
	Master string   `json:"master,omitempty"` // how Sentinels call it
	Buffer int      `json:"buffer,omitempty"` // bytes that a connection to a single one takes before a write waits; 0: as the system has it; ours only
}

// One is a single Redis.
func One(addr string) Redis { return Redis{Addrs: []string{addr}} }

// Open opens an engine; rivals only over a single Redis. The options are for ours.
func Open(name string, at Redis, ttl time.Duration, options ...lockmw.Option) (Engine, error) {
	if name == Ours {
		return openOurs(at, options)
	}
	if at.Kind != Single {
		return nil, fmt.Errorf("engines: %s over a %s was not built", name, at.Kind)
	}
	addr := at.Addrs[0]
	switch name {
	case Redislock:
		return openRedislock(addr), nil
	case Redsync:
		return openRedsync(addr), nil
	case Rueidislock:
		return openRueidislock(addr, ttl)
	}
	return nil, fmt.Errorf("engines: no engine %q", name)
}

// errTaken is what a rival returns when others hold the lock.
var errTaken = errors.New("engines: taken")

// client opens a client with go-redis's defaults; only the maintenance
// notifications are off, whose handshake a Redis 7 does not know.
func client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaintNotificationsConfig: quiet()})
}

func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
