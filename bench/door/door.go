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

// bare is put before a door's name for its framework alone.
const bare = "bare "

// Names returns all doors; each has a Bare one.
func Names() []string { return []string{"httplock", "ginlock", "echolock", "grpclock"} }

// Bare returns the name of a door's framework without the door.
func Bare(name string) string { return bare + name }

// Open starts a server with the door called name, whose locks are in the Redis
// at addr, and a client of it. The caller closes both.
func Open(name, addr string, wire *library.Wire) (Door, error) {
	l := &locks{}
	framework, isBare := strings.CutPrefix(name, bare)
	if !isBare {
		l.client = library.NewClient(addr, wire)
		var err error
		if l.locks, err = library.NewLockmw(l.client); err != nil {
			return nil, errors.Join(err, l.client.Close())
		}
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
	case "ginlock":
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
}

func (l *locks) Close() error {
	if l.locks == nil {
		return nil
	}
	return errors.Join(l.locks.Close(context.Background()), l.client.Close())
}

var (
	pathKey = keyfunc.MustParse("order:{param.id}")
	bodyKey = keyfunc.MustParse("order:{body.order_id}")
	policy  = lockmw.Policy{Prefix: "pay:", Retries: lockmw.Forever}
)
