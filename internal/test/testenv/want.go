package testenv

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// RedisKey returns where Redis keeps the lock of a key, given with its prefix.
func (r *Env) RedisKey(key string) string { return r.Namespace + ":{" + key + "}" }

// Token returns the token that holds the lock of a key, or "".
func (r *Env) Token(key string) string {
	r.Helper()
	token, err := r.Client.Get(context.Background(), r.RedisKey(key)).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it bare
		r.Fatal(err)
	}
	return token
}

// Left returns the Redis keys of all locks that are held or waited for. The
// fence of a lock, which may outlive it for a moment, is none of them.
func (r *Env) Left() []string {
	r.Helper()
	keys, err := r.Client.Keys(context.Background(), "*").Result()
	if err != nil {
		r.Fatal(err)
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return !strings.HasPrefix(key, r.Namespace) || strings.HasSuffix(key, ":fence")
	})
}

// WantReleasedFirst serves with a Locker whose releases take longer than an answer, and fails the
// test if ask, which returns with a client's answer, has it before every lock is released. An
// answer that does not wait for the release would often come a moment after it otherwise.
func (r *Env) WantReleasedFirst(serve func(*lockmw.Locker), ask func()) {
	r.Helper()
	const slow = 100 * time.Millisecond
	answered, late := make(chan struct{}), new(atomic.Bool)
	serve(r.NewLocker(lockmw.WithObserver(func(_ context.Context, ev lockmw.Event) {
		if ev.Kind != lockmw.EventReleased { // it is told before Release returns
			return
		}
		select {
		case <-answered:
			late.Store(true)
		case <-time.After(slow):
		}
	})))
	ask()
	close(answered)
	r.Until("all locks are released", func() bool { return r.Seen(lockmw.EventReleased) == r.Seen(lockmw.EventAcquired) })
	if late.Load() {
		r.Error("the client has its answer before the lock is released")
	}
}

// WantFree fails the test if a lock is held or waited for.
func (r *Env) WantFree() {
	r.Helper()
	if left := r.Left(); len(left) > 0 {
		r.Errorf("left in Redis: %q", left)
	}
}

// WantUnasked fails the test if a Locker has sent anything to Redis.
func (r *Env) WantUnasked() {
	r.Helper()
	if n := r.sent.Load(); n > 0 {
		r.Errorf("Redis was asked %d times, want never", n)
	}
}

// WantRuns fails the test unless handlers ran so often.
func (r *Env) WantRuns(want int) {
	r.Helper()
	if got := int(r.Ran.Load()); got != want {
		r.Errorf("handlers ran %d times, want %d", got, want)
	}
}

// UncertainKeys returns the keys of the work that is uncertain, as lockctl uncertain lists it, and whose keys begin with prefix.
func (r *Env) UncertainKeys(prefix string) (keys []string) {
	r.Helper()
	for info, err := range r.Locks.ListUncertain(context.Background(), prefix) {
		if err != nil {
			r.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// WantTicket fails the test unless work goes on by the ticket; where the work that issued it has failed, unless the ticket is spent and its lock free.
func (r *Env) WantTicket(what, ticket string, failed bool) {
	r.Helper()
	if err := lockmw.CheckTicket(ticket); err != nil {
		r.Errorf("%s: the handler has no ticket: %v", what, err)
		return
	}
	_, lease, err := r.Locks.Resume(context.Background(), ticket, lockmw.Policy{})
	switch {
	case failed && !errors.Is(err, lockmw.ErrTicketSpent):
		r.Errorf("%s: Resume = %v, want %v", what, err, lockmw.ErrTicketSpent)
	case !failed && err != nil:
		r.Errorf("%s: Resume = %v, want that the work goes on", what, err)
	}
	if lease != nil {
		r.Release(lease)
	}
	if left := r.Left(); len(left) > 0 {
		r.Errorf("%s: left in Redis: %q", what, left)
	}
}
