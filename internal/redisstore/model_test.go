package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A model is what queue.lua keeps, in Go: who holds the lock, who waits, and
// which lockers live. Moments are the server's, in microseconds.
type model struct {
	now     int64
	holder  string // exclusive, "" nobody; it need not be one of ours
	set     string // ":~" if the holder took the lock by SET, ":!" once one waits for it
	since   int64  // with set: what the lock says of when
	toldTo  string // with set: the token, once it was told its fence
	several []*share
	limits  []limit // of permits; nil: they share
	expires int64   // of the lock's key
	fence   int64   // of the last grant
	room    int64   // as high are the fences that a holder may use of which Redis does not know, where that is remembered
	kept    int64   // the fence that is remembered beside the lock, or that with room; 0: none is
	keptTo  int64   // until then
	tells   bool    // whoever releases tells its last fence
	done    string  // whoever held it alone, whose work is over, and that stays
	stays   int64   // until then

	queue      []*claim
	queueUntil int64
	alive      map[*member]*heartbeat
	releasing  *member // whose answer tells its waiters
	brings     *claim  // who has a place when the one that asks for the last time has left its own
	aliveUntil int64
}

// A limit is a number of permits that binds for a time.
type limit struct {
	n    int
	till int64
}

// A share is one of several holders.
type share struct {
	*claim
	ends int64
	over bool // its work is: it only stays until then
}

// A claim is one token with what it asks for, and its last grant's fence.
type claim struct {
	store.Ref
	member  *member
	fence   int64
	arrival int64 // of its place in the queue
}

// A member is one locker. It says that it hears (subscribed of its Store) or
// not, and somebody receives on its channel or not.
type member struct {
	*probe
	receives bool
	claims   []*claim
	heard    []store.News // by the answer to a release
}

// Listening implements store.Listener.
func (m *member) Listening() {}

// Granted implements store.Listener.
func (m *member) Granted(g store.News) { m.heard = append(m.heard, g) }

// OthersWait implements store.Listener.
func (m *member) OthersWait(string, string, int64) {}

// Revoking implements store.Listener.
func (m *member) Revoking(string, string, store.Intervention) {}

// Revoked implements store.Listener.
func (m *member) Revoked(string, string) {}

// A heartbeat says until when a locker lives, whether it said that it hears, and how
// many it said are behind.
type heartbeat struct {
	until  int64
	hears  bool
	behind int
}

const (
	lives      = 2500 * time.Millisecond // after a locker's last question
	deaf       = 1500 * time.Millisecond // once it was not heard
	signs      = 500 * time.Millisecond  // after which it says anew that it lives
	keep       = 10 * time.Second        // an untouched queue
	firstHeard = 2 * time.Second         // of a grant to a waiter that is told
	firstAsked = time.Second             // of one that finds it by asking
)

func (m *model) in(d time.Duration) int64 { return m.now + d.Microseconds() }

// elapse lets d pass, and everything end whose time has come.
func (m *model) elapse(d time.Duration) {
	m.now = m.in(d)
	if d < 0 { // the ends of TTLs are moments on the clock
		return
	}
	if m.expires <= m.now {
		m.free()
	}
	if m.queueUntil <= m.now {
		m.queue = nil
	}
	if m.aliveUntil <= m.now {
		clear(m.alive)
	}
	if m.keptTo <= m.now {
		m.kept = 0
	}
	if m.stays <= m.now {
		m.done = ""
	}
}

// first is when the first of the queue came, or 0.
func (m *model) first() int64 {
	if len(m.queue) == 0 {
		return 0
	}
	return m.queue[0].arrival
}

func (m *model) free() { m.holder, m.set, m.several, m.limits = "", "", nil, nil }

func (m *model) taken() bool { return m.holder != "" || len(m.several) > 0 }

// forget drops those of several holders whose lease is over. A question does
// that, and only of a lock whose key is there.
func (m *model) forget() {
	if len(m.several) == 0 {
		return
	}
	m.several = slices.DeleteFunc(m.several, func(s *share) bool { return s.ends <= m.now })
	if len(m.several) == 0 {
		m.free()
	}
}

// share returns c's place among several holders, or nil.
func (m *model) share(c *claim) *share {
	for _, s := range m.several {
		if s.claim == c {
			return s
		}
	}
	return nil
}

// ours says whether one of ours holds the lock alone, so that it or its holder tells the
// fence.
func (m *model) ours() bool {
	return strings.Contains(m.holder, ".") && (m.set == "" || m.toldTo == m.holder)
}

func (m *model) holds(c *claim) bool { return m.holder == c.Token || m.share(c) != nil }

// admits says whether one more of a kind can have the lock.
func (m *model) admits(kind store.Kind) bool {
	switch {
	case !m.taken():
		return true
	case m.holder != "" || kind == store.Kind{}:
		return false
	case kind.Shared:
		return m.limits == nil
	}
	n := kind.Permits
	for _, l := range m.limits {
		if l.till > m.now {
			n = min(n, l.n)
		}
	}
	return m.limits != nil && len(m.several) < n
}

// grant gives c the lock for ttl.
func (m *model) grant(c *claim, ttl time.Duration) {
	if !m.tells {
		m.fence = max(m.fence, m.room)
	}
	m.fence = max(m.fence+1, m.now)
	if m.fence > m.now || c.Kind != (store.Kind{}) {
		m.keep(m.fence, 0) // the fence is remembered instead
	}
	c.fence = m.fence
	m.set, m.tells = "", false
	m.hold(c, ttl)
}

// freed notes that nobody takes the lock over.
func (m *model) freed() {
	if !m.tells {
		m.fence = max(m.fence, m.room)
	}
	m.room = 0
}

// grace is GRACE_MS of lock.lua, in µs.
const grace = 1_000_000

// turns are the fences that a holder's locker may use beside the one that Redis knows.
const turns = 1_000_000

// extend has c hold the lock for ttl from now on. Its last fence is told to be fence, or 0
// if that is not known.
func (m *model) extend(c *claim, ttl time.Duration, fence int64) {
	if c.Kind == (store.Kind{}) {
		m.remember(fence, min(turns, ttl.Microseconds()/2), ttl)
	}
	m.hold(c, ttl)
}

// remember notes what is remembered beside a lock that an exclusive holder has for ttl,
// while the clock is behind its fence: the fence, and room above it if the lock may lapse
// before the clock has passed that.
func (m *model) remember(fence, room int64, ttl time.Duration) {
	switch {
	case fence+room >= m.in(ttl):
		m.keep(fence+room, fence+room)
	case fence >= m.now:
		m.keep(fence, 0)
	}
}

// keep notes that a fence is remembered beside the lock until the clock has passed it, and some time longer, and as high as room are those that a
// holder may use.
func (m *model) keep(fence, room int64) {
	m.room, m.kept, m.keptTo = room, fence, max(fence, m.now)+grace
}

// hold has c hold the lock for ttl from now on.
func (m *model) hold(c *claim, ttl time.Duration) {
	ends := m.in(ttl)
	if c.Kind == (store.Kind{}) {
		m.holder, m.expires = c.Token, ends
		return
	}
	if n := c.Kind.Permits; n > 0 {
		own := limit{n, ends}
		m.limits = slices.DeleteFunc(m.limits, func(l limit) bool {
			if l.n == n {
				own.till = max(own.till, l.till)
			}
			return l.n == n || l.till <= m.now
		})
		m.limits = append(m.limits, own)
	}
	s := m.share(c)
	if s == nil {
		s = &share{claim: c}
		m.several = append(m.several, s)
	}
	s.ends, s.over = ends, false
	m.last()
}

// last has the lock's key end with the last of several holders, in whole
// milliseconds from now.
func (m *model) last() {
	var last int64
	for _, s := range m.several {
		last = max(last, s.ends)
	}
	m.expires = m.in(ceil(last - m.now))
}

// ceil returns µs in whole milliseconds.
func ceil(micros int64) time.Duration { return time.Duration((micros+999)/1000) * time.Millisecond }

// left is what a refused claim is told about the end of those in its way.
func (m *model) left(c *claim) time.Duration {
	if c.Kind.Permits == 0 || m.limits == nil {
		return (time.Duration(m.expires-m.now) * time.Microsecond).Truncate(time.Millisecond)
	}
	first := m.several[0].ends
	for _, s := range m.several {
		first = min(first, s.ends)
	}
	return ceil(first - m.now)
}

// siblings are the tokens of a member that hold the lock, and where several
// hold, not for long.
func (m *model) siblings(of *member) string {
	if strings.HasPrefix(m.holder, of.locker+".") {
		return m.holder
	}
	var found []*share
	for _, s := range m.several {
		if s.member == of && s.ends <= m.in(firstHeard) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *share) int {
		return cmp.Or(cmp.Compare(a.ends, b.ends), strings.Compare(a.Token, b.Token))
	})
	var tokens []string
	for _, s := range found {
		tokens = append(tokens, s.Token)
	}
	return strings.Join(tokens, " ")
}

// value is what the lock's key holds.
func (m *model) value() string {
	switch {
	case m.set != "":
		return fmt.Sprint(m.holder, m.set, m.since)
	case len(m.several) == 0 && m.ours():
		return fmt.Sprint(m.holder, ":", m.fence)
	case len(m.several) == 0:
		return m.holder
	case m.limits != nil:
		value := "*permits"
		for _, l := range m.limits {
			value += fmt.Sprintf(" %d %d", l.n, l.till)
		}
		return value
	}
	return "*shared"
}

func (m *model) leave(c *claim) (was bool) {
	before := len(m.queue)
	m.queue = slices.DeleteFunc(m.queue, func(other *claim) bool { return other == c })
	return len(m.queue) < before
}
