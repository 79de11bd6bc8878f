// Package testenv gives a test of a door what it stands on: a Locker over a test's
// Redis, and a view of what the Locker did and what it left behind. Tests embed
// a [Env] and add their framework's server and client.
//
// It is for tests. What it wants and does not get fails the test; it returns no
// errors. An Env is not for two tests at once, but for all goroutines of one.
//
// Start reading at this file, then want.go (what is found in Redis), secret.go (what no
// client may learn), holder.go (another process that is in the way), settings.go (what
// operators change), log.go (what was logged of refusals) and journal.go (all that was
// logged), ask.go (a request to a handler) and locker.go (a Locker without an Env, where
// that is enough).
package testenv

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// Patience is how long an Env waits if it is told nothing else: long enough for
// a machine that is busy.
const Patience = 10 * time.Second

// An Env is one test's Redis and Locker.
type Env struct {
	testing.TB
	Backend   redistest.Backend
	Client    *redis.Client // the test's own; it does not try again
	Namespace string        // of all Lockers; no other Env has it
	Locks     *lockmw.Locker
	Patience  time.Duration // for what must happen; the test fails then
	Ran       atomic.Int32  // how often handlers ran: who serves them counts

	sent atomic.Int64 // by the Lockers, to Redis

	mu     sync.Mutex
	events []lockmw.Event
}

// New opens a Locker on backend. Everything is closed when the test ends.
func New(tb testing.TB, backend redistest.Backend) *Env {
	tb.Helper()
	r := &Env{TB: tb, Backend: backend, Namespace: redistest.Prefix(tb) + "ns", Patience: Patience}
	r.Client = backend.Client(tb, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	r.Locks = r.NewLocker()
	return r
}

// NewLocker opens another Locker in the same namespace, which is watched and
// closed like the first.
func (r *Env) NewLocker(opts ...lockmw.Option) *lockmw.Locker {
	r.Helper()
	opts = append(opts, lockmw.WithNamespace(r.Namespace), lockmw.WithObserver(func(_ context.Context, ev lockmw.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, ev)
	}))
	client := r.Backend.Client(r, func(o *redis.Options) {
		dial := o.Dialer // set by a Redis without a socket
		if dial == nil {
			dial = new(net.Dialer).DialContext
		}
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return countedConn{conn, &r.sent}, err
		}
	})
	l, err := lockmw.New(client, append([]lockmw.Option{quiet, secretive}, opts...)...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { r.CloseNow(l) })
	return l
}

// CloseNow closes a Locker and does not wait for what is still held. Who waits
// for a lock is refused. It may be called again.
func (r *Env) CloseNow(l *lockmw.Locker) {
	ctx, end := context.WithCancel(context.Background())
	end()
	if err := l.Close(ctx); err != nil {
		r.Logf("close: %v", err)
	}
}

// Take takes the lock of a key, given with its prefix. It fails the test if it
// is not free.
func (r *Env) Take(key string) *lockmw.Lease {
	r.Helper()
	return r.takeBy(r.Locks, key)
}

// takeBy is Take by another Locker.
func (r *Env) takeBy(l *lockmw.Locker, key string) *lockmw.Lease {
	r.Helper()
	lease, err := AskedAgain(context.Background(), l, key, lockmw.Policy{}, func(err error, _ time.Time) bool { return errors.Is(err, lockmw.ErrUnavailable) })
	if err != nil {
		r.Fatal(err)
	}
	return lease
}

// ResolveUncertain says what became of the uncertain work of a key. It fails the test if there is none.
func (r *Env) ResolveUncertain(key string, how lockmw.Resolution) {
	r.Helper()
	ctx := context.Background()
	info, err := r.Locks.Inspect(ctx, key)
	if err != nil || info.Answer == nil || info.Answer.State != lockmw.AnswerUncertain {
		r.Fatalf("%q: %+v, %v, want that it is uncertain", key, info.Answer, err)
	}
	if err := r.Locks.Resolve(ctx, key, info.Answer.Work, how); err != nil {
		r.Fatal(err)
	}
}

// Release releases a lease. It fails the test if that was lost.
func (r *Env) Release(lease *lockmw.Lease) {
	r.Helper()
	if err := lease.Release(context.Background()); err != nil {
		r.Fatal(err)
	}
}

// Seen returns how many events of a kind there were in all Lockers.
func (r *Env) Seen(kind lockmw.EventKind) int { return len(r.Told(kind)) }

// Told returns the events of a kind that there were in all Lockers, in their order.
func (r *Env) Told(kind lockmw.EventKind) []lockmw.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var told []lockmw.Event
	for _, ev := range r.events {
		if ev.Kind == kind {
			told = append(told, ev)
		}
	}
	return told
}

// Until is await.Within, with r's patience.
func (r *Env) Until(what string, is func() bool) {
	r.Helper()
	await.Within(r, r.Patience, what, is)
}

// Receive is await.ReceiveWithin, with r's patience.
func Receive[T any](r *Env, what string, ch <-chan T) (value T) {
	r.Helper()
	return await.ReceiveWithin(r, r.Patience, what, ch)
}

// A countedConn is a connection of a Locker's.
type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(p)
}
