package lockadmin

import (
	"slices"
	"time"

	"github.com/lockmw/kit/internal/measure"
	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/lockmw"
)

// A lock is what the page is told of one. Times are in milliseconds since 1970, by this
// process's clock, which every message tells, too: so nothing changes while time passes.
type lock struct {
	ID      uint64   `json:"id"`
	Key     string   `json:"key"`
	Mode    string   `json:"mode"` // exclusive, shared or permits
	Permits int      `json:"permits,omitzero"`
	Waiting int      `json:"waiting,omitzero"`
	Holders []holder `json:"holders,omitempty"`
	Waiters []waiter `json:"waiters,omitempty"` // the first of them, in their order
	Answer  *kept    `json:"answer,omitempty"`  // what Do has left beside the lock
}

type holder struct {
	Instance string `json:"instance,omitempty"` // empty: a program without lockmw
	Own      bool   `json:"own,omitzero"`       // this process's
	Note     string `json:"note,omitempty"`
	Since    int64  `json:"since,omitzero"`     // 0: not known
	Until    int64  `json:"until,omitzero"`     // end of the TTL; 0: there is none
	Cools    bool   `json:"cools,omitzero"`     // its work is over, and MinHold keeps the key taken until then
	HandedOn bool   `json:"handed_on,omitzero"` // to a ticket, which has the lock until then
}

// A waiter has a place in the queue of a lock. Of those who wait for a mutex in one process, it is the first.
type waiter struct {
	Instance string `json:"instance"`
	Own      bool   `json:"own,omitzero"` // this process's
	Note     string `json:"note,omitempty"`
	Mode     string `json:"mode"` // exclusive, shared or permits
	Permits  int    `json:"permits,omitzero"`
	Since    int64  `json:"since,omitzero"` // 0: not known
}

// A kept tells of an answer of lockmw.Do, or of work that was begun and has none. The answer
// itself is never told: it may be private. Its times are by Redis's clock.
type kept struct {
	State string `json:"state"`          // kept, in progress or uncertain
	Work  string `json:"work,omitempty"` // empty: an answer is kept
	Since int64  `json:"since"`          // when the answer was made, or the work began
	Until int64  `json:"until,omitzero"` // before that the answer is for whoever comes; 0: there is none
	Bytes int    `json:"bytes,omitzero"`
}

// keptOf puts a, which may be nil, in the page's words.
func keptOf(a *lockmw.KeptAnswer) *kept {
	if a == nil {
		return nil
	}
	k := &kept{State: string(a.State), Work: a.Work, Since: a.Since.UnixMilli(), Bytes: a.Bytes}
	if !a.Until.IsZero() {
		k.Until = a.Until.UnixMilli()
	}
	return k
}

// lockOf puts info, which was read at now, in the page's words.
func lockOf(info lockmw.Info, own string, now time.Time) lock {
	l := lock{Key: info.Key, Mode: measure.ModeOf(info.Mode, info.Permits), Permits: info.Permits, Waiting: info.Waiting, Answer: keptOf(info.Answer)}
	for _, h := range info.Holders {
		of := holder{Instance: h.Instance, Own: h.Instance == own, Note: h.Note, Cools: h.CoolingDown, HandedOn: h.HandedOn}
		if h.Age > 0 {
			of.Since = now.Add(-h.Age).UnixMilli()
		}
		if h.Left >= 0 {
			of.Until = now.Add(h.Left).UnixMilli()
		}
		l.Holders = append(l.Holders, of)
	}
	for _, w := range info.Waiters {
		of := waiter{Instance: w.Instance, Own: w.Instance == own, Note: w.Note, Mode: measure.ModeOf(w.Mode, w.Permits), Permits: w.Permits}
		if w.Waited > 0 {
			of.Since = now.Add(-w.Waited).UnixMilli()
		}
		l.Waiters = append(l.Waiters, of)
	}
	return l
}

// jitter is by how many milliseconds a moment may seem to have moved that is read again
// from Redis: it is counted back from when the answer came.
const jitter = 400

// A change is how a lock differs from what it was.
type change int

const (
	same    change = iota
	renewed        // only the ends of TTLs have moved
	changed
)

// update makes l what it is now, and says how it differs. Moments that are the same stay
// as they are, to the millisecond.
func (l *lock) update(now lock) change {
	if l.Mode != now.Mode || l.Permits != now.Permits || l.Waiting != now.Waiting || len(l.Holders) != len(now.Holders) ||
		!slices.EqualFunc(l.Waiters, now.Waiters, waiter.same) || !l.Answer.same(now.Answer) {
		now.ID = l.ID
		*l = now
		return changed
	}
	now.Waiters = l.Waiters
	differs := same
	for i := range now.Holders {
		was, is := &l.Holders[i], &now.Holders[i]
		switch {
		case !was.same(*is), (was.Until == 0) != (is.Until == 0):
			differs = changed
			continue
		case abs(was.Until-is.Until) > jitter:
			differs = max(differs, renewed)
		default:
			is.Until = was.Until
		}
		is.Since = was.Since
	}
	if differs != same {
		now.ID = l.ID
		*l = now
	}
	return differs
}

// same reports whether two readings tell of one holder.
func (h holder) same(as holder) bool {
	return h.Instance == as.Instance && h.Note == as.Note && h.Cools == as.Cools && h.HandedOn == as.HandedOn && abs(h.Since-as.Since) <= jitter
}

// same reports whether two readings tell of one waiter.
func (w waiter) same(as waiter) bool {
	near := abs(w.Since-as.Since) <= jitter
	w.Since = as.Since
	return near && w == as
}

// same reports whether two readings tell of one answer. Redis tells its moments as they are,
// so that these do not differ from reading to reading.
func (k *kept) same(as *kept) bool { return k == as || k != nil && as != nil && *k == *as }

// until are the ends of the holders' TTLs, after the lock's ID.
func (l *lock) until() []int64 {
	ends := make([]int64, 0, 1+len(l.Holders))
	ends = append(ends, int64(l.ID))
	for _, h := range l.Holders {
		ends = append(ends, h.Until)
	}
	return ends
}

func abs(n int64) int64 { return max(n, -n) }

// An incident is a refusal, a loss or the like.
type incident struct {
	At     int64  `json:"at"`
	Kind   string `json:"kind"`
	Name   string `json:"name,omitempty"`
	Key    string `json:"key,omitempty"`
	Reason string `json:"reason,omitempty"`
	Holder string `json:"holder,omitempty"`
	Waited int64  `json:"waited,omitzero"`
	Held   int64  `json:"held,omitzero"`
}

func incidentsOf(past []recent.Incident) []incident {
	all := make([]incident, 0, len(past))
	for _, i := range past {
		all = append(all, incident{
			At: i.At.UnixMilli(), Kind: i.Kind, Name: i.Name, Key: i.Key, Reason: i.Reason, Holder: i.Holder,
			Waited: i.Waited.Milliseconds(), Held: i.Held.Milliseconds(),
		})
	}
	return all
}
