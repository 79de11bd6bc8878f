package doortest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The lock of the usual route, in words that no answer may show.
const (
	prefix  = "topprefix:"
	id      = "secretid"
	lockKey = prefix + "order:" + id
	payPath = "/orders/" + id + "/pay"
)

// patience is how long a case waits for what must happen. It fails then.
var patience = 10 * time.Second

// An env is one case's Redis, Locker and server.
type env struct {
	testing.TB
	fw      Framework
	backend redistest.Backend
	client  *redis.Client
	ns      string
	locks   *lockmw.Locker
	server  *httptest.Server
	ran     atomic.Int32 // handlers that were run
	sent    atomic.Int64 // by the Locker, to Redis

	mu     sync.Mutex
	events []lockmw.Event
}

// newEnv opens a Locker on backend. Everything is closed when the test ends.
func newEnv(tb testing.TB, fw Framework, backend redistest.Backend, opts ...lockmw.Option) *env {
	tb.Helper()
	e := &env{TB: tb, fw: fw, backend: backend, ns: redistest.Prefix(tb) + "ns"}
	e.client = backend.Client(tb, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	e.locks = e.locker(opts...)
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

// route returns the usual route: POST /orders/{id}/pay, locked by the order.
func (e *env) route(handle func(x *Exchange) error) Route {
	return Route{
		Method: http.MethodPost, Path: "/orders/{id}/pay",
		Locks: e.locks, Key: keyfunc.MustParse("order:{param.id}"), Policy: lockmw.Policy{Prefix: prefix},
		Handle: handle,
	}
}

// bodyRoute returns a route that is locked by the field id of its body.
func (e *env) bodyRoute(handle func(x *Exchange) error) Route {
	route := e.route(handle)
	route.Path, route.Key = "/orders", keyfunc.MustParse("order:{body.id}")
	return route
}

// fine is a handler that has nothing to say.
func fine(*Exchange) error { return nil }

// handler returns the framework's handler for the routes, and counts what
// runs.
func (e *env) handler(routes ...Route) http.Handler {
	for i := range routes {
		handle := routes[i].Handle
		routes[i].Handle = func(x *Exchange) error {
			e.ran.Add(1)
			return handle(x)
		}
	}
	return e.fw.Serve(routes...)
}

// serve starts a server with the routes.
func (e *env) serve(routes ...Route) {
	e.Helper()
	server, locks := httptest.NewServer(e.handler(routes...)), e.locks
	e.server = server
	e.Cleanup(func() {
		e.close(locks) // the server waits for requests, and they may wait for a lock
		server.Close()
	})
}

// receive returns what comes from ch, and fails the test if nothing does.
func receive[T any](e *env, what string, ch <-chan T) (value T, ok bool) {
	e.Helper()
	select {
	case value, ok = <-ch:
		return value, ok
	case <-time.After(patience):
		e.Fatalf("not within %v: %s", patience, what)
		return value, false
	}
}

// wantRuns fails the test unless so many handlers were run.
func (e *env) wantRuns(want int) {
	e.Helper()
	if got := int(e.ran.Load()); got != want {
		e.Errorf("%d handlers were run, want %d", got, want)
	}
}
