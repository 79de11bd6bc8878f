// Package admin asks the servers of a run directly, past the proxies through
// which its locks go.
package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// Clients returns a client of each server, which waits a second for a reply and tries
// once: a fault may have the server hang.
func Clients(tb testing.TB, servers []*redistest.Server) []*redis.Client {
	tb.Helper()
	clients := make([]*redis.Client, len(servers))
	for i, server := range servers {
		clients[i] = server.Client(tb, func(o *redis.Options) {
			o.MaxRetries, o.ReadTimeout, o.DialTimeout, o.DialerRetries = -1, time.Second, time.Second, 1
		})
	}
	return clients
}

// Do has a server carry out a command, and tries again for some seconds: a fault
// that is about to end may strike this client too.
func Do(client *redis.Client, args ...any) error {
	const tries, pause = 50, 100 * time.Millisecond
	var err error
	for range tries {
		if err = client.Do(context.Background(), args...).Err(); err == nil || errors.Is(err, redis.Nil) {
			return nil
		}
		time.Sleep(pause)
	}
	return err
}

// Force releases a lock by force, and tries again for some seconds: one command has a
// second, which is little while a machine is busy with other tests.
func Force(locks *lockmw.Locker, key string) error {
	const limit = 20 * time.Second
	for end := time.Now().Add(limit); ; {
		err := locks.ForceRelease(context.Background(), key)
		if !errors.Is(err, lockmw.ErrUnavailable) || time.Now().After(end) {
			return err
		}
	}
}

// Locks returns the keys of a server that match a pattern, without the fences,
// which outlive their locks.
func Locks(client *redis.Client, pattern string) ([]string, error) {
	names, err := client.Keys(context.Background(), pattern).Result()
	var locks []string
	for _, name := range names {
		if !strings.HasSuffix(name, ":fence") {
			locks = append(locks, name)
		}
	}
	return locks, err
}
