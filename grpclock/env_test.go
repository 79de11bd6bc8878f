package grpclock_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/lockmw"
)

// The lock of the usual rule, in words that no status may show.
const (
	prefix  = "topprefix:"
	id      = "secretid"
	lockKey = prefix + "order:" + id
)

// patience is how long a case waits for what must happen. It fails then.
var patience = 10 * time.Second

// An env is one case's Redis, Locker, server and client.
type env struct {
	testing.TB
	doors
	backend redistest.Backend
	client  *redis.Client
	ns      string
	locks   *lockmw.Locker
	remote
	ran  atomic.Int32 // messages that handlers got to work on
	sent atomic.Int64 // by the Locker, to Redis

	mu     sync.Mutex
	events []lockmw.Event
}

// newEnv opens a Locker on backend. Everything is closed when the test ends.
func newEnv(tb testing.TB, d doors, backend redistest.Backend) *env {
	tb.Helper()
	e := &env{TB: tb, doors: d, backend: backend, ns: redistest.Prefix(tb) + "ns"}
	e.client = backend.Client(tb, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	e.locks = e.locker()
	return e
}

func (e *env) locker(opts ...lockmw.Option) *lockmw.Locker {
	e.Helper()
	opts = append(opts, lockmw.WithNamespace(e.ns), lockmw.WithObserver(func(_ context.Context, ev lockmw.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.events = append(e.events, ev)
	}))
	client := e.backend.Client(e, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return countedConn{conn, &e.sent}, err
		}
	})
	l, err := lockmw.New(client, opts...)
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { e.close(l) })
	return l
}

func (e *env) close(l *lockmw.Locker) {
	ctx, end := context.WithCancel(context.Background())
	end() // what is still held is not waited for
	if err := l.Close(ctx); err != nil {
		e.Logf("close: %v", err)
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

// seen returns how many events of a kind there were.
func (e *env) seen(kind lockmw.EventKind) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, ev := range e.events {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

// until waits for ok to hold, and fails the test if it does not within limit.
func (e *env) until(limit time.Duration, what string, ok func() bool) {
	e.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			e.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// receive returns what comes from ch, and fails the test if nothing does.
func receive[T any](e *env, what string, ch <-chan T) (value T) {
	e.Helper()
	select {
	case value = <-ch:
		return value
	case <-time.After(patience):
		e.Fatalf("not within %v: %s", patience, what)
		return value
	}
}

// hold takes the lock of the usual rule.
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

// redisKey returns where Redis keeps the usual lock.
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

// wantUnasked fails the test if the Locker has sent anything to Redis.
func (e *env) wantUnasked() {
	e.Helper()
	if n := e.sent.Load(); n > 0 {
		e.Errorf("Redis was asked %d times, want never", n)
	}
}

// wantRuns fails the test unless handlers got so many messages to work on.
func (e *env) wantRuns(want int) {
	e.Helper()
	if got := int(e.ran.Load()); got != want {
		e.Errorf("handlers worked %d times, want %d", got, want)
	}
}
