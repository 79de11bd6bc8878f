// Package door serves requests through each door, and through its bare
// framework, to a real client over loopback: http.go and grpc.go.
package door

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Door takes requests. Its methods may be called concurrently.
type Door interface {
	// Request asks the server to pay the order of that number and returns
	// when it has.
	Request(ctx context.Context, order string) error

	// Close ends the client and the server.
	Close() error
}

// Doors of Gin beside which ginlock is measured: without awaiting the release, and what is written by hand over other libraries.
const (
	Async       = "ginlock, AsyncRelease"
	byRedislock = "Gin, by hand over redislock"
	byRedsync   = "Gin, by hand over redsync"
)

// ThroughGin returns the ways to a lock in Gin, and first Gin alone.
func ThroughGin() []string {
	return []string{Bare("ginlock"), "ginlock", Async, byRedislock, byRedsync}
}

// bare is put before a door's name for its framework alone.
const bare = "bare "

// Names returns all doors; each has a Bare one.
func Names() []string { return []string{"httplock", "ginlock", "echolock", "grpclock"} }

// Bare returns the name of a door's framework without the door.
func Bare(name string) string { return bare + name }

// Open starts a server with the door called name, whose locks are in the Redis
// at addr, and a client of it. The caller closes both.
func Open(name, addr string, wire *library.Wire) (Door, error) {
	framework, isBare := strings.CutPrefix(name, bare)
	l := &locks{policy: lockmw.Policy{Prefix: "pay:", Retries: lockmw.Forever}}
	var err error
	switch name {
	case byRedislock:
		l.other, err = library.Open(library.Redislock, addr, wire)
	case byRedsync:
		l.other, err = library.Open(library.Redsync, addr, wire)
	default:
		if l.policy.AsyncRelease = name == Async; !isBare {
			err = l.open(addr, wire)
		}
	}
	if err != nil {
		return nil, err
	}
	d, err := serve(framework, l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return d, nil
}

func serve(framework string, l *locks) (Door, error) {
	switch framework {
	case "httplock":
		return serveHTTP(netHTTP(l), l)
	case "ginlock", Async, byRedislock, byRedsync:
		return serveHTTP(withGin(l), l)
	case "echolock":
		return serveHTTP(withEcho(l), l)
	case "grpclock":
		return serveGRPC(l)
	}
	return nil, fmt.Errorf("there is no door %q", framework)
}

// locks is what a door takes its locks from; nothing for a bare framework.
type locks struct {
	client *redis.Client
	locks  *lockmw.Locker
	policy lockmw.Policy
	other  library.Locker // in the place of all these, for what is written by hand
}

func (l *locks) open(addr string, wire *library.Wire) (err error) {
	l.client = library.NewClient(addr, wire)
	if l.locks, err = library.NewLockmw(l.client); err != nil {
		return errors.Join(err, l.client.Close())
	}
	return nil
}

func (l *locks) Close() error {
	switch {
	case l.other != nil:
		return l.other.Close()
	case l.locks == nil:
		return nil
	}
	return errors.Join(l.locks.Close(context.Background()), l.client.Close())
}

var (
	pathKey = keyfunc.MustParse("order:{param.id}")
	bodyKey = keyfunc.MustParse("order:{body.order_id}")
)
