// Package admin asks the servers of a run directly, past the proxies through
// which its locks go.
package admin

import (
	"context"
	"errors"
	"slices"
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

// Do has a server carry out a command, and tries again after an error, see Retry. A nil reply is no error.
func Do(client *redis.Client, args ...any) error {
	return Retry(func() error {
		if err := client.Do(context.Background(), args...).Err(); !errors.Is(err, redis.Nil) {
			return err
		}
		return nil
	})
}

// Retry does something until it succeeds, up to 50 times with 100 ms in between: for 5 s where each try is
// refused at once, for 55 s where a server is silent. It may be done twice, since a reply may be lost. Trying again
// is needed for two reasons: a fault that is about to end may strike this client too; and once as many dials have
// failed as the pool is large, counted over all restarts, go-redis answers with the last dial's error, without
// dialling, for up to a second after the server is back.
func Retry(do func() error) error {
	const tries, pause = 50, 100 * time.Millisecond
	var err error
	for range tries {
		if err = do(); err == nil {
			return nil
		}
		time.Sleep(pause)
	}
	return err
}

// Force releases a lock by force, and tries again for 20 s: one command has a
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

// Locks returns the keys of a server that match a pattern, but for fences and answers,
// which outlive their locks. It asks once.
func Locks(client *redis.Client, pattern string) ([]string, error) {
	names, err := client.Keys(context.Background(), pattern).Result()
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ":fence") || strings.HasSuffix(name, ":answer") }), err
}
