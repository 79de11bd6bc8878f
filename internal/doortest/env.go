package doortest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
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

// request returns a request for the server. Headers are pairs.
func (e *env) request(method, path string, body io.Reader, headers ...string) *http.Request {
	e.Helper()
	r, err := http.NewRequest(method, e.server.URL+path, body)
	if err != nil {
		e.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// do sends a request and reads the answer.
func (e *env) do(r *http.Request) answer {
	e.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	response, err := e.server.Client().Do(r.WithContext(ctx))
	if err != nil {
		e.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		e.Fatalf("%s %s: read the answer: %v", r.Method, r.URL, err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// pay sends the usual request.
func (e *env) pay() answer {
	e.Helper()
	return e.do(e.request(http.MethodPost, payPath, nil))
}

// post sends a body to the bodyRoute.
func (e *env) post(body string) answer {
	e.Helper()
	return e.do(e.request(http.MethodPost, "/orders", strings.NewReader(body), "Content-Type", "application/json"))
}

// background sends a request and returns where its answer will come.
func (e *env) background(r *http.Request) <-chan answer {
	answers := make(chan answer, 1)
	go func() { // ends by do's deadline
		defer close(answers)
		response, err := e.server.Client().Do(r)
		if err != nil {
			return // no answer: the channel is closed
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil {
			answers <- answer{response.StatusCode, response.Header, string(body)}
		}
	}()
	return answers
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

// wantRuns fails the test unless so many handlers were run.
func (e *env) wantRuns(want int) {
	e.Helper()
	if got := int(e.ran.Load()); got != want {
		e.Errorf("%d handlers were run, want %d", got, want)
	}
}
