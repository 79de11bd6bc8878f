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

// Do has a server carry out a command. A nil reply is no error. See try for what it does about others.
func Do(client *redis.Client, args ...any) error {
	return try(func() error {
		if err := client.Do(context.Background(), args...).Err(); !errors.Is(err, redis.Nil) {
			return err
		}
		return nil
	})
}

// try asks up to 50 times with 100 ms in between: 5 s where each is refused at once, 55 s where a server is
// silent. So what it asks must bear to be done twice, as it is where a reply is lost. A fault that is about to
// end may strike this client too. And after as many failed dials as its pool is large, to which restarts add
// up, go-redis answers with the error of the last one, without dialling, for up to a second after the server
// is back.
func try(ask func() error) error {
	const tries, pause = 50, 100 * time.Millisecond
	var err error
	for range tries {
		if err = ask(); err == nil {
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

// Locks returns the keys of a server that match a pattern, but for fences, which
// outlive their locks. See try for what it does about an error.
func Locks(client *redis.Client, pattern string) ([]string, error) {
	var locks []string
	err := try(func() error {
		names, err := client.Keys(context.Background(), pattern).Result()
		locks = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ":fence") })
		return err
	})
	return locks, err
}

// SetNX reports whether it has set a key that was not there. Where the reply of a SET that did is lost, it
// reports that it has not. See try for what it does about an error.
func SetNX(client *redis.Client, key, value string, ttl time.Duration) (done bool, err error) {
	err = try(func() (err error) {
		done, err = client.SetNX(context.Background(), key, value, ttl).Result()
		return err
	})
	return done, err
}
