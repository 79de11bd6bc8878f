package locktest

import (
	"slices"
	"testing"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// AwaitWaiters returns when n callers of l, or more, wait for a key: they stand in its
// queue, so that they have the lock in the order in which they came, and a release hands
// it to the first. Calls of lockmw.Do count that wait for the answer of another one. While
// Redis is down, callers count that wait for it to come back. With n 0 it returns when
// nobody waits for the key any more.
//
// It takes the place of a pause between the call that is to wait and what the test does
// next, such as releasing what Hold took. The callers may cease to wait as soon as it has
// returned, when their policies' time is over.
//
// It may be called from any goroutine. It fails the test if five seconds do not bring n
// waiters, and says how many there were, whether the key is locked, and which keys were
// asked for; it also does if n is negative, and if l is not from New.
func AwaitWaiters(t testing.TB, l *lockmw.Locker, key string, n int) {
	t.Helper()
	s := stageOf(t, "AwaitWaiters", l)
	if n < 0 {
		t.Fatalf("locktest: AwaitWaiters: n is %d, want how many callers are to wait for %q", n, key)
	}
	waiting := 0
	if s.await(s.patience, func() bool {
		waiting = seam.Waiting(l, key)
		return waiting >= n && (n > 0 || waiting == 0)
	}) {
		return
	}
	how := "not locked"
	if keys, err := s.locked(); err != nil || slices.Contains(keys, key) {
		how = "locked"
	}
	t.Fatalf("locktest: AwaitWaiters: waiters for %q = %d after %v, want %d; it is %s%s", key, waiting, s.patience, n, how, s.asked.others(key))
}

// Keys returns the keys that are locked at this moment, sorted: those that Redis has for
// the code under test and for Hold, also those that a policy's MinHold keeps after their
// release. They are whole, with their prefixes. What runs without its lock, by FailOpen,
// locks nothing.
//
// Inside the code under test it tells what that has locked; after a test it is empty
// unless something was left behind. Keys that were asked for and are free again are not
// in it: to see that the right key is asked for, use Hold, which fails the test
// otherwise.
//
// It may be called from any goroutine, also while Redis is down for the code under test.
// It fails the test if l is not from New.
func Keys(t testing.TB, l *lockmw.Locker) []string {
	t.Helper()
	s := stageOf(t, "Keys", l)
	keys, err := s.locked()
	if err != nil {
		t.Fatalf("locktest: Keys: %v", err)
	}
	return keys
}

// locked returns the keys that are locked, sorted. A Redis key of a lock may outlive its
// last holder for a moment, so each is looked into.
func (s *stage) locked() (keys []string, err error) {
	infos, err := s.infos("")
	for _, info := range infos {
		if info.Held || info.CoolingDown {
			keys = append(keys, info.Key)
		}
	}
	return keys, err
}
