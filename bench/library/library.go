// Package library puts this library, three rivals and the bare commands behind
// one interface, each used as its documentation recommends: ours.go and rivals.go.
// wire.go counts what they send, tape.go records it, and scripts.go is for a comparison
// of two of our own ways.
package library

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A Locker takes locks. Its methods may be called concurrently.
type Locker interface {
	// Lock waits until it has the lock of key, or ctx ends. unlock gives it
	// back, also when ctx has ended meanwhile, and returns when Redis has
	// answered, but for OursAsync.
	Lock(ctx context.Context, key string) (unlock func() error, err error)

	// Close closes the connections. No lock may be held.
	Close() error
}

// The libraries' names.
const (
	Ours      = "lockmw"
	Redislock = "redislock"
	Redsync   = "redsync"
	Rueidis   = "rueidislock"
	Raw       = "raw"

	// OursByScripts is what this library sends for a lock that it does not expect
	// to be free: not another library, and none of Names.
	OursByScripts = "lockmw, by scripts"

	// OursAsync does not await its releases (lockmw.Policy.AsyncRelease). None of Names.
	OursAsync = "lockmw, AsyncRelease"

	// RedislockPiped, RedislockDuplex and RedsyncPiped are rivals over go-redis's auto-pipelining client, which is experimental
	// there: half and full duplex. None of Names.
	RedislockPiped  = "redislock, auto-pipelined"
	RedislockDuplex = "redislock, full duplex"
	RedsyncPiped    = "redsync, auto-pipelined"
)

// Piped returns the rivals over go-redis's auto-pipelining client.
func Piped() []string { return []string{RedislockPiped, RedislockDuplex, RedsyncPiped} }

// Names returns all libraries: ours, the rivals and the floor.
func Names() []string { return append(append([]string{Ours}, Rivals()...), Raw) }

// Rivals returns the other libraries, without the floor.
func Rivals() []string { return []string{Redislock, Redsync, Rueidis} }

const (
	ttl   = 30 * time.Second      // of each lock
	pause = 10 * time.Millisecond // between two tries, for those that poll
)

// Open returns the library called name with connections of its own to the
// Redis at addr, whose commands the wire counts. The caller closes it.
func Open(name, addr string, wire *Wire) (Locker, error) {
	if name == Rueidis {
		return openRueidis(addr, wire)
	}
	client := NewClient(addr, wire)
	switch name {
	case Ours:
		return openOurs(client, lockmw.Policy{TTL: ttl, Retries: lockmw.Forever})
	case OursAsync:
		return openOurs(client, lockmw.Policy{TTL: ttl, Retries: lockmw.Forever, AsyncRelease: true})
	case OursByScripts:
		return openByScripts(client)
	case Redislock:
		return openRedislock(client), nil
	case Redsync:
		return openRedsync(client), nil
	case RedislockPiped, RedislockDuplex, RedsyncPiped:
		return openPiped(name, client)
	case Raw:
		return &raw{client: client}, nil
	}
	client.Close()
	return nil, fmt.Errorf("there is no library %q", name)
}

// NewClient returns a client with the options that all libraries over go-redis
// get, ours too.
func NewClient(addr string, wire *Wire) *redis.Client {
	o := redistest.Options(addr)
	o.Dialer = wire.dial
	return redis.NewClient(o)
}
