package combos

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/proof/history"
)

// What no call shows by itself is in this file: two holders, a lock that nobody
// took though callers waited, and refusals where nobody else wanted the lock.

// judgeOverlaps looks for two holders. While there are two masters, only those holds
// count that began after ours must have followed to the new one.
func (r *round) judgeOverlaps() {
	var holds []history.Hold
	for _, k := range r.calls {
		if k.outcome != granted || k.panicked != "" || k.returned >= k.ended {
			continue
		}
		if r.fault.sees == elects && r.excused(k) {
			continue
		}
		h := history.Hold{
			Kind: r.kind(), Permits: r.permits(), Shared: k.shared, Worker: k.by, ID: k.id,
			Began: k.began(), Ended: k.ended, How: history.Released,
		}
		for _, key := range k.keys {
			h.Key = key
			holds = append(holds, h)
		}
	}
	for _, o := range history.Overlaps(holds) {
		r.violatef(ruleOverlap, "%v; %s", o, r.at())
	}
}

// excused says that a hold began before a Locker must have followed to the new
// master, and, if it was kept, ended when it must have been told.
func (r *round) excused(k call) bool {
	if k.holds && k.ended > r.follows+r.bound(r.c.TTL/3+500*time.Millisecond, r.follows, k.ended) {
		return false
	}
	return k.returned < r.follows+followWithin
}

func (r *round) kind() history.Kind {
	switch r.c.Form {
	case shared:
		return history.Readers
	case fewPermits, manyPermits:
		return history.Permits
	}
	return history.Mutex
}

func (r *round) permits() int {
	if n := r.c.permits(); n > 0 {
		return r.policy().Permits
	}
	return 0
}

// judgeProgress looks for a second in which callers waited for the one key, and
// nobody had it, though Redis was well.
func (r *round) judgeProgress() {
	if r.c.Keys != oneKey || r.fault.sees != well || r.closing > 0 || r.c.Trait == slowDialer || r.c.Form == minHold || r.c.Site == nodeSite || r.c.Logger == blocked {
		return
	}
	var taken []window
	for _, k := range r.calls {
		switch {
		case slices.Contains(k.keys, "one") && k.outcome == granted && k.inside:
			taken = append(taken, window{k.asked, k.ended})
		case slices.Contains(k.keys, "one") && k.outcome == granted:
			taken = append(taken, window{k.began(), k.ended})
		}
	}
	slices.SortFunc(taken, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	var last time.Duration
	for _, w := range append(taken, window{math.MaxInt64, math.MaxInt64}) {
		for _, k := range r.calls {
			from, to := max(last, k.asked), min(w.from, k.returned)
			if k.keys[0] == "one" && !k.blocked && k.panicked == "" && to-from > r.bound(1100*time.Millisecond, from, to) {
				r.violatef(ruleProgress, "for %v, while this one waited: %v", to-from, k)
				return
			}
		}
		last = max(last, w.to)
	}
}

// inTheWay returns until when what a call has had may be in the way of the next one for its keys. What a command has taken that was not answered is
// given back in the background, or ends by its TTL.
func (r *round) inTheWay(o call) time.Duration {
	over, more := max(o.returned, o.released), 100*time.Millisecond
	answers := time.Duration(len(o.keys)) * 2 * r.c.Distance
	tooShort := o.wait > 0 && o.wait <= answers && r.c.Load == crowd // its commands are not answered in time, as those of thousands
	if o.outcome == unavailable || o.release == unavailable || o.outcome == notAcquired && tooShort {
		more = r.c.TTL
		if r.c.HandsOn { // to whom nobody comes with the ticket
			more = max(more, ticketLasts)
		}
	}
	return over + r.bound(more, o.asked, over+more)
}

// judgeNotAcquired looks for refusals where nobody else wanted the key, or where
// all have room.
func (r *round) judgeNotAcquired() {
	if r.fault.sees != well || r.c.Form == minHold || r.closing > 0 {
		return
	}
	for _, k := range r.calls {
		if k.outcome != notAcquired || k.handed > 0 || k.ctxEnded > 0 || k.blocked || k.by == byOurs && (r.c.Trait == slowDialer || r.c.Site == nodeSite) {
			continue
		}
		switch { // nobody says that others had it
		case strings.Contains(k.err, "the wait was over before its turn came"): // one budget for several keys
			continue
		case strings.Contains(k.err, "the wait was over before") && (r.c.Load == crowd || r.c.Distance > 0 || r.unanswered(k)):
			continue
		}
		if r.permits() > 2*crowd {
			r.violatef(ruleError, "all have room: %v", k)
		}
		if r.c.Keys == ownKeys && !slices.ContainsFunc(r.calls, func(o call) bool {
			return o.id != k.id && slices.Equal(o.keys, k.keys) && o.asked < k.returned && r.inTheWay(o) > k.asked
		}) {
			r.violatef(ruleError, "nobody else wanted it: %v", k)
		}
	}
}
