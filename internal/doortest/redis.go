package doortest

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// hold takes the lock of the usual route.
func (e *env) hold() *lockmw.Lease { return e.take(lockKey) }

// take takes the lock of a key with its prefix.
func (e *env) take(key string) *lockmw.Lease {
	e.Helper()
	lease, err := e.locks.Acquire(context.Background(), key, lockmw.Policy{})
	if err != nil {
		e.Fatal(err)
	}
	return lease
}

func (e *env) release(lease *lockmw.Lease) {
	e.Helper()
	if err := lease.Release(context.Background()); err != nil {
		e.Fatal(err)
	}
}

// redisKey returns where Redis keeps the lock of a key with its prefix.
func (e *env) redisKey(key string) string { return e.ns + ":{" + key + "}" }

// token returns the token that holds a key, or "".
func (e *env) token(key string) string {
	e.Helper()
	token, err := e.client.Get(context.Background(), e.redisKey(key)).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it bare
		e.Fatal(err)
	}
	return token
}

// left returns what is in Redis of the case's locks. The fence of a lock may
// outlive it for a moment.
func (e *env) left() []string {
	e.Helper()
	keys, err := e.client.Keys(context.Background(), "*").Result()
	if err != nil {
		e.Fatal(err)
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return !strings.HasPrefix(key, e.ns) || strings.HasSuffix(key, ":fence")
	})
}

// free fails the test if a lock is held or waited for.
func (e *env) free() {
	e.Helper()
	if left := e.left(); len(left) > 0 {
		e.Errorf("left in Redis: %q", left)
	}
}

// A countedConn is a connection of the Locker's.
type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(p)
}

// wantUnasked fails the test if the Locker has sent anything to Redis.
func (e *env) wantUnasked() {
	e.Helper()
	if n := e.sent.Load(); n > 0 {
		e.Errorf("Redis was asked %d times, want never", n)
	}
}
