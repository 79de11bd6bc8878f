package lockmw_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// over returns a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// stoodStill says whether the machine stood still since then. Redis's silence may have begun
// shortly before.
func stoodStill(since time.Time) bool {
	return machine.Longest(since.Add(-2*time.Second), time.Now()) >= 100*time.Millisecond
}

// unanswered says whether err is that Redis did not answer a question asked then, on a machine
// that stood still.
func unanswered(err error, asked time.Time) bool {
	return errors.Is(err, lockmw.ErrUnavailable) && stoodStill(asked)
}

// askedAgain takes the lock, and asks again on a machine that stood still, also where that was long only for the policy's TTL.
func askedAgain(l *lockmw.Locker, key string, p lockmw.Policy) (*lockmw.Lease, error) {
	return testenv.AskedAgain(context.Background(), l, key, p, func(err error, asked time.Time) bool {
		tooLate := p.TTL > 0 && time.Since(asked) > p.TTL/2
		return unanswered(err, asked) || tooLate && errors.Is(err, lockmw.ErrUnavailable)
	})
}

// askUntil asks until the error is right, and again only where Redis may have been silent: the machine stood still, or the question
// took longer than one that is answered at once. It asks eight times at most: for two seconds and more, behind a silence.
func askUntil(right func(error) bool, ask func() error) (err error) {
	silent := false
	for range 8 {
		asked := time.Now()
		err = ask()
		silent = silent || time.Since(asked) > 500*time.Millisecond || stoodStill(asked)
		if right(err) || !silent {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	return err
}

// answered asks until Redis answers, also that it refuses what it is asked. Asking twice must do the same as asking once.
func answered(ask func() error) error {
	return askUntil(func(err error) bool { return !errors.Is(err, lockmw.ErrUnavailable) }, ask)
}

// unavailable is for askUntil: Redis refuses, and the error says all of that.
func unavailable(says ...string) (right func(error) bool) {
	return func(err error) bool {
		return errors.Is(err, lockmw.ErrUnavailable) && !slices.ContainsFunc(says, func(part string) bool { return !strings.Contains(err.Error(), part) })
	}
}

// mustAcquire takes the lock or fails the test.
func mustAcquire(tb testing.TB, l *lockmw.Locker, key string, p lockmw.Policy) *lockmw.Lease {
	tb.Helper()
	lease, err := askedAgain(l, key, p)
	if err != nil {
		tb.Fatal(err)
	}
	return lease
}

// mustRelease gives the lock back or fails the test. Where the machine stood still, that may
// go on in the background.
func mustRelease(tb testing.TB, lease *lockmw.Lease) {
	tb.Helper()
	asked := time.Now()
	if err := lease.Release(context.Background()); err != nil && !unanswered(err, asked) {
		tb.Fatal(err)
	}
}

// keysOf returns the Redis keys whose names hold part.
func keysOf(tb testing.TB, c *redis.Client, part string) []string {
	tb.Helper()
	var keys []string
	it := c.Scan(context.Background(), 0, "*", 1000).Iterator()
	for it.Next(context.Background()) {
		if strings.Contains(it.Val(), part) {
			keys = append(keys, it.Val())
		}
	}
	if err := it.Err(); err != nil {
		tb.Fatal(err)
	}
	return keys
}

// noKeys waits until nothing is left in Redis of the locks whose keys hold part.
// A machine that stood still has more time: what it did not answer is given back in the background.
func noKeys(tb testing.TB, c *redis.Client, part string, within time.Duration) {
	tb.Helper()
	var keys []string
	began := time.Now()
	for {
		if keys = keysOf(tb, c, part); len(keys) == 0 {
			return
		}
		if waited := time.Since(began); waited > within && (waited > 10*time.Second || !stoodStill(began)) {
			tb.Fatalf("left in Redis after %v: %q", within, keys)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// queued returns how many waiters stand in a key's queue.
func queued(tb testing.TB, c *redis.Client, key string) int {
	tb.Helper()
	n, err := c.ZCard(context.Background(), "lock:{"+key+"}:queue").Result()
	if err != nil {
		tb.Fatal(err)
	}
	return int(n)
}

// events collects what a Locker tells its observer.
type events struct {
	mu  sync.Mutex
	all []lockmw.Event
}

func (e *events) option() lockmw.Option {
	return lockmw.WithObserver(func(_ context.Context, ev lockmw.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, ev)
	})
}

// of returns the events of one kind so far.
func (e *events) of(kind lockmw.EventKind) []lockmw.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var some []lockmw.Event
	for _, ev := range e.all {
		if ev.Kind == kind {
			some = append(some, ev)
		}
	}
	return some
}

// each runs test against an embedded and a real Redis, with a key of its own.
func each(t *testing.T, test func(t *testing.T, c *redis.Client, key string)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		test(t, s.Client(t), redistest.Prefix(t))
	})
}
