// Package locktest is for tests of code that takes locks. It gives a test a Locker over a
// Redis inside the test. And it causes what hardly ever happens by itself during a test:
// others hold a lock, a lock is lost, a process dies in the middle of its work, or Redis
// is away.
//
//	locks := locktest.New(t)
//	release := locktest.Hold(t, locks, "order:42")  // the handler answers 409, or waits
//	locktest.AwaitWaiters(t, locks, "order:42", 1)  // returns when it waits
//	release()                                       // whoever waits has the lock now
//	locktest.Keys(t, locks)                         // "order:42"
//	locktest.Lose(t, locks, "order:42")             // the handler's context ends
//	locktest.Crash(t, locks)                        // the handler's process dies: was it paid?
//	locktest.Uncertain(t, locks)                    // work that may have been done or not
//	locktest.Down(t, locks)                         // the handler answers 503
//	locktest.Up(t, locks)                           // and works again
//
// Locked checks that each of a list of requests asks for a lock at all. Generated checks
// that the decorators that lockgen has written are current.
//
// Keys are whole: the policy's prefix followed by what the key function returns, as
// lockmw.Lease.Key gives them. If the key of a Hold is wrong, the test fails.
//
// Hold acts as another process. So a test needs no second Locker over the same Redis, and
// cannot have one.
//
// Time is real, and so is the loopback connection to Redis, so tests in a synctest bubble
// cannot use this package. Tests that run in parallel do not affect each other, because
// every Locker has a Redis of its own.
//
// All functions except New and Generated may be called from any goroutine, also by the
// code that holds the lock. If they cannot go on, they call t.Fatalf, which ends the
// goroutine that called them. If that is not the test's own goroutine, the test is marked
// as failed and goes on.
//
// In the code, stage.go has what is behind a Locker of this package, and asked.go
// remembers which keys it was asked for. crash.go makes its process die, outage.go takes
// its Redis away, and look.go looks into that Redis.
package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/kit/lockmw"
)

// New returns a Locker over a Redis that runs inside the test. Both are closed when
// the test ends, the Locker first. Locks that are still held are then released, and
// callers that still wait get lockmw.ErrClosed. If an option is wrong, New fails
// the test.
//
// The options are those of lockmw.New. WithNamespace has no effect, because nobody
// else uses this Redis. Observers are not told what Hold does.
func New(t testing.TB, opts ...lockmw.Option) *lockmw.Locker {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // keys expire as time passes
	if err := server.Start(); err != nil {
		t.Fatalf("locktest: New: start a Redis: %v", err)
	}
	t.Cleanup(server.Close)

	s := &stage{server: server, patience: patience, leases: make(map[*lockmw.Lease]bool)}
	// The stage's observers are the first, so that they know what another one is
	// told; its namespace is the last, so that it counts.
	observers := []lockmw.Option{lockmw.WithObserver(s.observe), lockmw.WithObserver(s.asked.observe)}
	s.locks = open(t, redis.Options{Addr: server.Addr(), Dialer: s.way.dial}, append(observers, opts...)...)
	s.others = open(t, redis.Options{Addr: server.Addr()})

	stages.Store(s.locks, s)
	t.Cleanup(func() { stages.Delete(s.locks) })
	return s.locks
}

// open returns a Locker that is closed when the test ends, over a client of its own.
func open(t testing.TB, o redis.Options, opts ...lockmw.Option) *lockmw.Locker {
	t.Helper()
	// Its handshake is a command that this Redis does not know.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(&o)
	t.Cleanup(func() { _ = client.Close() })
	l, err := lockmw.New(client, append(opts, lockmw.WithNamespace(namespace))...)
	if err != nil {
		t.Fatalf("locktest: New: %v", err)
	}
	t.Cleanup(func() {
		ctx, end := context.WithCancel(context.Background())
		end() // what is still held is not waited for
		_, err := l.Inspect(ctx, "any")
		closed := errors.Is(err, lockmw.ErrClosed) // by the test, which has seen the error
		if err := l.Close(ctx); err != nil && !closed {
			t.Errorf("locktest: close the Locker: %v", err)
		}
	})
	return l
}

// Hold takes a key as another process would, and keeps it until release is called
// or the test ends. Meanwhile the code under test is refused or waits, as its
// policy says. When release returns, the first of those that wait has the key.
// Calling release again does nothing.
//
// If nobody asks for the key, the test has the wrong one, and its handler runs
// beside the lock without anybody noticing. So Hold fails the test at its end if
// the code under test has not asked for the key since New, and says which keys it
// asked for instead. (A call of AcquireAll asks for its keys in sorted order, up to
// the first that others hold.) A test may want a key only to be taken, to look at
// it or to release it by force. Such a test takes the key with l itself.
//
// Hold does not wait. It fails the test if the key is taken by the code under test
// or by an earlier Hold, if the code under test waits for it, if no lock can have
// such a key, and if l is not from New.
func Hold(t testing.TB, l *lockmw.Locker, key string) (release func()) {
	t.Helper()
	s := stageOf(t, "Hold", l)
	_, lease, err := s.others.Acquire(context.Background(), key, lockmw.Policy{})
	switch {
	case err == nil:
	case errors.Is(err, lockmw.ErrNotAcquired) && len(s.holders(key)) > 0:
		t.Fatalf("locktest: Hold: the code under test holds %q", key)
	case errors.Is(err, lockmw.ErrNotAcquired):
		t.Fatalf("locktest: Hold: %q is taken: an earlier Hold was not released, or the code under test waits for it", key)
	default:
		t.Fatalf("locktest: Hold: %v", err)
	}
	release = sync.OnceFunc(func() {
		t.Helper()
		if err := lease.Release(context.Background()); err != nil {
			t.Errorf("locktest: release what Hold took: %v", err)
		}
	})
	t.Cleanup(func() {
		t.Helper()
		release()
		if !s.wasAskedFor(key) && !t.Skipped() {
			t.Errorf("locktest: Hold: nobody asked for %q%s", key, s.asked.others(key))
		}
	})
	return release
}

// Lose takes a key away from the code under test, as a Redis does that forgets it
// in a restart, a fail-over or an eviction. Lose returns when the holder has been
// told, which takes milliseconds here. The context of the holder's lease has then
// ended, and its release will return lockmw.ErrLost. The context's cause is
// lockmw.ErrLost too, unless the holder gave the key back at that moment or was
// over its MaxHold.
//
// The key is then free. Those who wait for it keep their places, and the first
// finds it free within its retry interval. If somebody else is to have the key,
// call Hold next. What Redis had of work by lockmw.Do is forgotten as well, so the
// next call does that work. (After a Crash, it is still there.)
//
// Lose fails the test if no lease of l holds the key, while Redis is down, and if l
// is not from New.
func Lose(t testing.TB, l *lockmw.Locker, key string) {
	t.Helper()
	s := stageOf(t, "Lose", l)
	holders := s.holders(key)
	if len(holders) == 0 {
		t.Fatalf("locktest: Lose: the code under test does not hold %q%s", key, s.whatElse())
	}
	if _, down := s.way.state(); down {
		t.Fatalf("locktest: Lose: Redis is down, so the holder of %q cannot be told: call Up first", key)
	}
	s.forget(key)
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	for _, lease := range holders {
		if !s.tell(ctx, lease) {
			t.Fatalf("locktest: Lose: the holder of %q was not told within %v", key, s.patience)
		}
	}
}
