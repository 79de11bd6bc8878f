package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A judge knows who holds what, and says what must not be.
type judge struct {
	world *world

	mu     sync.Mutex
	wrong  []string
	active []*record
	fences map[string]int64     // by key: the highest of those who held it alone
	forgot map[string]time.Time // by key: when Redis was last made to forget it; "": all
}

// A record is one call.
type record struct {
	process int
	wish    Wish
	asked   time.Time
	had     time.Time
	until   time.Time // ValidUntil, as it was told last
	lease   *lockmw.Lease
}

const mostWrong = 20

func newJudge(w *world) *judge {
	return &judge{world: w, fences: make(map[string]int64), forgot: make(map[string]time.Time)}
}

// addf notes what is wrong.
func (j *judge) addf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.addLockedf(format, args...)
}

func (j *judge) addLockedf(format string, args ...any) {
	if len(j.wrong) < mostWrong {
		j.wrong = append(j.wrong, fmt.Sprintf("%v: ", time.Since(j.world.began))+fmt.Sprintf(format, args...))
	}
}

// sayf notes what is wrong with a call.
func (j *judge) sayf(r *record, format string, args ...any) {
	j.addf("process %d, %s %v: "+format, append([]any{r.process, r.wish.Kind, r.wish.Keys}, args...)...)
}

// begin notes that a call begins.
func (j *judge) begin(at int, wish Wish) *record {
	return &record{process: at, wish: wish, asked: time.Now()}
}

// forgets notes that Redis no longer knows who holds a key; "" is all of them.
func (j *judge) forgets(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forgot[key] = time.Now()
}

// kept reports whether Redis kept its word about a lease of a key. A process may pass on a lock that Redis has forgotten for a second.
func (j *judge) kept(r *record, key string) bool {
	for _, at := range []time.Time{j.forgot[""], j.forgot[key]} {
		if !at.IsZero() && r.asked.Before(at.Add(1100*time.Millisecond)) {
			return false
		}
	}
	return true
}

// refused judges a call that got no lease.
func (j *judge) refused(r *record, err error, took time.Duration) {
	known := false
	for _, is := range []error{
		lockmw.ErrNotAcquired, lockmw.ErrUnavailable, lockmw.ErrQueueFull, context.DeadlineExceeded, context.Canceled,
	} {
		known = known || errors.Is(err, is)
	}
	if !known {
		j.sayf(r, "%v", err)
	}
	j.bound(r, "Acquire", took, j.longest(r))
	if errors.Is(err, lockmw.ErrUnavailable) && !j.world.ill(r.process, r.asked.Add(-3*time.Second), FaultKind.onTheWay) && !j.disturbed(r.asked.Add(-3*time.Second)) {
		j.sayf(r, "nothing was wrong with Redis: %v", err)
	}
}

// disturbed reports whether Redis was made to forget something since then.
func (j *judge) disturbed(since time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, at := range j.forgot {
		if at.After(since) {
			return true
		}
	}
	return false
}

// longest is how long a call may take.
func (j *judge) longest(r *record) time.Duration {
	const slack = 1500 * time.Millisecond
	p := r.wish.Policy
	longest := p.Wait
	if p.Retries > 0 {
		if retries := time.Duration(p.Retries) * 2 * p.RetryInterval; p.Wait == 0 || retries < longest {
			longest = retries
		}
	}
	if up := r.wish.GiveUp; up > 0 {
		longest = min(longest, up)
	}
	return longest + slack + time.Duration(len(r.wish.Keys)-1)*slack
}

func (j *judge) bound(r *record, what string, took, most time.Duration) {
	if took > most {
		j.sayf(r, "%s took %v, want at most %v", what, took, most)
	}
}

// granted judges a lease at the moment when it is given.
func (j *judge) granted(r *record, lease *lockmw.Lease, took time.Duration) {
	j.bound(r, "Acquire", took, j.longest(r))
	opened := lease.ValidUntil().IsZero()
	if opened && !r.wish.Policy.FailOpen {
		j.sayf(r, "a lease without a lock")
	}
	if opened && !j.world.ill(r.process, r.asked.Add(-3*time.Second), FaultKind.silences) {
		j.sayf(r, "it ran without the lock, and Redis could answer")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r.lease, r.had, r.until = lease, time.Now(), lease.ValidUntil()
	for _, key := range r.wish.Keys {
		if !j.holds(r, key) {
			continue
		}
		beside := 0
		for _, other := range j.active {
			if !j.holds(other, key) {
				continue
			}
			beside++
			if alone(r) || alone(other) {
				j.addLockedf("%s is held twice: process %d (%s, since %v) and process %d (%s, now)", key, other.process, other.wish.Kind,
					other.had.Sub(j.world.began), r.process, r.wish.Kind)
			}
		}
		if n := r.wish.Policy.Permits; n > 0 && beside >= n {
			j.addLockedf("%s has %d permits, and process %d is holder %d", key, n, r.process, beside+1)
		}
		if alone(r) {
			fence := lease.FenceOf(key)
			if fence <= j.fences[key] {
				j.addLockedf("the fence of %s fell from %d to %d", key, j.fences[key], fence)
			}
			j.fences[key] = fence
		}
	}
	j.active = append(j.active, r)
}

// alone reports whether a call wants its keys for itself.
func alone(r *record) bool { return r.wish.Policy.Mode != lockmw.Shared && r.wish.Policy.Permits == 0 }

// holds reports whether a call relies on its lock of a key, and may.
func (j *judge) holds(r *record, key string) bool {
	failedOpen := r.lease.FenceOf(key) == 0 // or it does not want this key
	return !failedOpen && r.lease.Valid() && j.kept(r, key)
}

// worked judges a lease at the end of its work.
func (j *judge) worked(r *record) {
	if until := r.lease.ValidUntil(); !until.IsZero() {
		j.mu.Lock()
		r.until = until
		j.mu.Unlock()
	}
	if !r.until.IsZero() && time.Now().After(r.until) && r.lease.Context().Err() == nil {
		j.sayf(r, "the lease was over at %v, and its work was not told", r.until.Sub(j.world.began))
	}
}

// released judges a release.
func (j *judge) released(r *record, err error, took time.Duration) {
	j.mu.Lock()
	j.active = slices.DeleteFunc(j.active, func(other *record) bool { return other == r })
	j.mu.Unlock()
	j.bound(r, "Release", took, 1300*time.Millisecond)
	if err != nil && !errors.Is(err, lockmw.ErrLost) && !errors.Is(err, lockmw.ErrUnavailable) {
		j.sayf(r, "Release: %v", err)
	}
}
