package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/lockmw"
)

// A hold is one turn under a lock, from when Acquire returned to the first of
// the release, the context's end and the end of validity.
type hold struct {
	key        string
	fence      int64
	start, end time.Time
}

// A mishap is an error that a caller saw.
type mishap struct {
	at  time.Time
	err error
}

// A load is callers that take turns at keys until they are stopped, and what
// came of it.
type load struct {
	policy lockmw.Policy
	turns  atomic.Int64
	stop   chan struct{}
	wg     sync.WaitGroup

	mu      sync.Mutex
	holds   []hold
	mishaps []mishap
}

// startLoad has n callers on each of the Lockers take turns at the keys.
func startLoad(lockers []*lockmw.Locker, n int, keys []string, p lockmw.Policy) *load {
	ld := &load{policy: p, stop: make(chan struct{})}
	for _, l := range lockers {
		for i := range n {
			ld.wg.Go(func() {
				for turn := i; ; turn++ {
					select {
					case <-ld.stop:
						return
					default:
						ld.turn(l, keys[turn%len(keys)])
					}
				}
			})
		}
	}
	return ld
}

func (ld *load) turn(l *lockmw.Locker, key string) {
	_, lease, err := l.Acquire(context.Background(), key, ld.policy)
	start := time.Now()
	if err != nil {
		ld.failed(err)
		return
	}
	select {
	case <-time.After(2 * time.Millisecond): // the work
	case <-lease.Context().Done():
	}
	h := hold{lease.Key(), lease.Fence(), start, time.Now()}
	if until := lease.ValidUntil(); until.Before(h.end) {
		h.end = until
	}
	if err := lease.Release(context.Background()); err != nil {
		ld.failed(err)
	} else {
		ld.turns.Add(1)
	}
	ld.mu.Lock()
	ld.holds = append(ld.holds, h)
	ld.mu.Unlock()
}

func (ld *load) failed(err error) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	ld.mishaps = append(ld.mishaps, mishap{time.Now(), err})
}

// more waits until so many more turns were taken without a mishap.
func (ld *load) more(t *testing.T, turns int64) {
	t.Helper()
	from := ld.turns.Load()
	await.Within(t, 40*time.Second, fmt.Sprintf("%d more turns", turns), func() bool { return ld.turns.Load() >= from+turns })
}

// end stops the load and checks that every error was a documented one.
func (ld *load) end(t *testing.T) {
	t.Helper()
	close(ld.stop)
	ld.wg.Wait()
	kinds := make(map[string]int)
	for _, m := range ld.mishaps {
		kind := ""
		for _, documented := range []error{lockmw.ErrUnavailable, lockmw.ErrNotAcquired, lockmw.ErrLost} {
			if errors.Is(m.err, documented) {
				kind = documented.Error()
			}
		}
		if kind == "" {
			t.Errorf("an undocumented error: %v", m.err)
		}
		kinds[kind]++
	}
	t.Logf("%d turns; errors: %v", len(ld.holds), kinds)
}

// overlaps counts holds of one key that overlap, and fails the test if a fence
// is not higher than that of a hold before it.
func (ld *load) overlaps(t *testing.T) int {
	t.Helper()
	n := 0
	byKey := make(map[string][]hold)
	for _, h := range ld.holds {
		byKey[h.key] = append(byKey[h.key], h)
	}
	for key, holds := range byKey {
		slices.SortFunc(holds, func(a, b hold) int { return a.start.Compare(b.start) })
		last := holds[0]
		for _, h := range holds[1:] {
			if h.start.Before(last.end) {
				n++
				t.Logf("%s: fence %d from %v to %v, and fence %d from %v to %v", key,
					last.fence, last.start.Format(clockTime), last.end.Format(clockTime), h.fence, h.start.Format(clockTime), h.end.Format(clockTime))
			} else if h.fence <= last.fence {
				t.Errorf("%s: fence %d after %d", key, h.fence, last.fence)
			}
			if h.end.After(last.end) {
				last = h
			}
		}
	}
	return n
}

const clockTime = "05.000000"

// longestGap is the longest time in which no hold began, from since on.
func (ld *load) longestGap(since time.Time) time.Duration {
	var starts []time.Time
	for _, h := range ld.holds {
		if h.start.After(since) {
			starts = append(starts, h.start)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	var gap time.Duration
	last := since
	for _, at := range starts {
		gap = max(gap, at.Sub(last))
		last = at
	}
	return gap
}
