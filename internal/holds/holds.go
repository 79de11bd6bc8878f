// Package holds remembers how long locks were held lately, by the name of their policy.
// From that it estimates when a refused caller may find the lock free, and costs no
// command: what it knows are the holds of its own Locker, and those of others as far as callers of this
// Locker have come across them.
package holds

import (
	"sync"
	"time"
)

// A History has the last few holds of a few names, so its memory is bounded. The zero
// History has none. It is safe for concurrent use.
type History struct {
	mu     sync.Mutex
	byName map[string]*recentHolds
}

const (
	// mostNames bounds the names, of which programs have few. A program that makes
	// one for each request has its estimates forgotten, and no more memory.
	mostNames = 256

	// holdsEach is how many holds are kept of each name: a job that begins to
	// take longer is known to do so after about as many.
	holdsEach = 8
)

// recentHolds is a ring of the last holds.
type recentHolds struct {
	all  [holdsEach]hold
	next int
	n    int
}

// A hold is one lease of a lock, or what was seen of it.
type hold struct {
	fence  int64 // tells it from others; 0: it cannot be told
	length time.Duration
}

// Add notes that a lock called name was held for length. The one with that fence may
// have been seen before, while it was held, and was held for longer by now. Fence 0 says
// that it cannot be told from others.
func (h *History) Add(name string, fence int64, length time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.byName[name]
	if r == nil {
		if h.byName == nil {
			h.byName = make(map[string]*recentHolds)
		}
		for other := range h.byName { // any
			if len(h.byName) < mostNames {
				break
			}
			delete(h.byName, other)
		}
		r = new(recentHolds)
		h.byName[name] = r
	}
	if fence != 0 {
		for i := range r.all[:r.n] {
			if seen := &r.all[i]; seen.fence == fence {
				seen.length = max(seen.length, length)
				return
			}
		}
	}
	r.all[r.next] = hold{fence, length}
	r.next = (r.next + 1) % holdsEach
	r.n = min(r.n+1, holdsEach)
}

// typical returns the mean of the last holds under name, but for the one with that
// fence, which is not over yet. It is not known if there are none.
func (h *History) typical(name string, but int64) (mean time.Duration, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.byName[name]
	if r == nil {
		return 0, false
	}
	var sum time.Duration
	n := 0
	for _, hold := range r.all[:r.n] {
		if but == 0 || hold.fence != but {
			sum += min(hold.length, longestHold)
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / time.Duration(n), true
}

// longestHold bounds a hold in a mean, so that their sum is a Duration.
const longestHold = 30 * 24 * time.Hour

// Soonest is the least that ComesFree returns.
const Soonest = time.Second

// A Lock is a lock that others have, as a caller knows it who was refused.
type Lock struct {
	Name  string        // of its policy
	TTL   time.Duration // what a renewal gives it
	Least time.Duration // at least this long a lock stays taken with each hold

	Left  time.Duration // until it ends, if no renewal comes; the TTL where it is not known
	Age   time.Duration // how long it is held already; 0: not known
	Fence int64         // of that hold; 0: not known
	Turns int           // of those who wait for it, one after the other

	CoolingDown bool // nobody is at work: it only stays taken for Left
	HandedOn    bool // it waits for somebody who goes on with its work, and is not renewed meanwhile
}

// ComesFree estimates after how long a caller who asks again may find the lock free, or
// at least no queue, or that the work is done, after which it stays taken up to Least: from the holds under its name, how long it is held already and how
// many wait. It is Soonest while nothing is known, and Left where the holder seems to
// have crashed, because its lock was not renewed. It is never more than Left, unless that
// is less than Soonest.
func (h *History) ComesFree(l Lock) time.Duration {
	turn, known := h.typical(l.Name, l.Fence)
	free := turn - l.Age
	turn = max(turn, l.Least)
	switch {
	case l.CoolingDown:
		free = l.Left
	case free > 0 && known:
	case l.Left < l.TTL/2 && !l.HandedOn:
		free = l.Left // no renewal came for long: its holder has crashed, or is about to end
	default:
		free = Soonest
	}
	if l.Turns > 0 {
		free += min(turn, l.Left/time.Duration(l.Turns)) * time.Duration(l.Turns) // at most Left in all: that is no overflow
	}
	return max(min(free, l.Left), Soonest)
}
