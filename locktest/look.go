package locktest

import (
	"slices"
	"testing"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// AwaitWaiters returns when n callers of l, or more, wait for a key. They are then in its
// queue: they get the lock in the order in which they came, and a release hands it to the
// first. Calls of lockmw.Do that wait for the answer of another call count too. While
// Redis is down, those callers count that wait for it to come back. With n = 0,
// AwaitWaiters returns when nobody waits for the key any more.
//
// Use it in place of a pause between the call that is to wait and the next step of the
// test, such as releasing what Hold took. As soon as it has returned, the callers may
// stop waiting, if the time of their policies is over.
//
// AwaitWaiters may be called from any goroutine. It fails the test if there are not n
// waiters within five seconds. It then says how many there were, whether the key is
// locked, and which keys were asked for. It also fails the test if n is negative, and if
// l is not from New.
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
// the code under test and for Hold, and those that a policy's MinHold keeps after their
// release. They are whole, with their prefixes. Work that runs without its lock, by
// FailOpen, locks nothing.
//
// Inside the code under test, Keys tells what that code has locked. After a test it is
// empty, unless something was left behind. It does not contain keys that were asked for
// and are free again. To check that the right key is asked for, use Hold, which otherwise
// fails the test.
//
// Keys may be called from any goroutine, also while Redis is down for the code under
// test. It fails the test if l is not from New.
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
