package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

const (
	namespace = "lock" // of all locks in a stage's Redis

	patience = 5 * time.Second      // for what takes milliseconds
	pause    = 2 * time.Millisecond // until that is asked for again
)

// A stage is what stands behind a Locker from New.
type stage struct {
	server *miniredis.Miniredis
	locks  *lockmw.Locker // of the code under test
	others *lockmw.Locker // of Hold: another process in the same Redis
	way    way            // of locks to the server; that of others is never cut
	asked  account

	patience time.Duration

	mu     sync.Mutex
	leases map[*lockmw.Lease]bool // held through locks
}

// stages finds the stage of a Locker, from New until the test ends.
var stages sync.Map // *lockmw.Locker → *stage

func stageOf(t testing.TB, caller string, l *lockmw.Locker) *stage {
	t.Helper()
	s, ok := stages.Load(l)
	if !ok {
		t.Fatalf("locktest: %s: the Locker is not from locktest.New, or its test is over", caller)
	}
	return s.(*stage)
}

// observe keeps account of the leases. Events about a lease come with its
// context.
func (s *stage) observe(ctx context.Context, e lockmw.Event) {
	lease, found := lockmw.FromContext(ctx)
	if !found || lease.Key() != e.Key {
		return // about a call of Acquire
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case lockmw.EventAcquired:
		s.leases[lease] = true
	case lockmw.EventReleased, lockmw.EventLost:
		delete(s.leases, lease)
	default: // it holds as before
	}
}

// await asks until it is so, for a limit at most, and reports whether it came to that.
func (s *stage) await(limit time.Duration, so func() bool) bool {
	again := time.NewTicker(pause)
	defer again.Stop()
	for end := time.Now().Add(limit); !so(); <-again.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// wasAskedFor reports whether the code under test has asked for a key. That of a caller
// who has just begun to wait, or left, is noted a moment later.
func (s *stage) wasAskedFor(key string) bool {
	return s.await(s.patience/5, func() bool { return s.asked.has(key) || seam.Waiting(s.locks, key) > 0 })
}

// holders returns the leases that hold a key.
func (s *stage) holders(key string) []*lockmw.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	var holders []*lockmw.Lease
	for lease := range s.leases {
		if lease.Key() == key && !isLost(lease) {
			holders = append(holders, lease)
		}
	}
	return holders
}

// isLost reports whether a lease was lost. The observer hears of that a moment later.
func isLost(lease *lockmw.Lease) bool {
	return errors.Is(context.Cause(lease.Context()), lockmw.ErrLost)
}

// whatElse tells which keys are held, for who has mistaken one.
func (s *stage) whatElse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for lease := range s.leases {
		if !isLost(lease) {
			keys = append(keys, lease.Key())
		}
	}
	if len(keys) == 0 {
		return ", nor any other key"
	}
	slices.Sort(keys)
	return fmt.Sprintf("; it holds %q", slices.Compact(keys))
}

// answers is the word behind a lock's name in the Redis key where lockmw.Do leaves an answer, or the intent of work.
const answers = ":answer"

// forget removes what Redis has of a lock, except for who waits and for the
// last fence, since the next must be higher, and except for what has one of the other words behind its name.
func (s *stage) forget(key string, others ...string) {
	lock := namespace + ":{" + key + "}"
	stays := slices.Concat(others, []string{":queue", ":alive", ":fence"})
	for _, found := range s.server.Keys() {
		rest, ours := strings.CutPrefix(found, lock)
		if ours && !slices.Contains(stays, rest) {
			s.server.Del(found)
		}
	}
}

// infos tells of the locks for which Redis has a key with that word behind the lock's name, sorted.
func (s *stage) infos(word string) (infos []lockmw.Info, err error) {
	for _, found := range s.server.Keys() {
		key, ours := strings.CutPrefix(found, namespace+":{")
		key, has := strings.CutSuffix(key, "}"+word)
		if !ours || !has {
			continue
		}
		info, err := s.others.Inspect(context.Background(), key)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b lockmw.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos, nil
}

// tell returns when a lease whose key is gone has ended, or false at the end of
// ctx. It asks again and again: a renewal that is under way may have come before
// the loss, and hides the next one until it is done.
func (s *stage) tell(ctx context.Context, lease *lockmw.Lease) bool {
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		seam.RenewNow(s.locks, lease.Key())
		select {
		case <-lease.Context().Done():
			return true
		case <-again.C:
		case <-ctx.Done():
			return false
		}
	}
}
