package redisstore

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A turn is what a question came to.
type turn struct {
	granted  bool
	at       int64 // the server's time
	fresh    bool
	placed   bool // the one that a last question brings has a place
	released store.Released
	told     []*claim // the waiters whose lockers were told about their grants
	first    int64    // who waited then came at that time, the first of them
	answered []*claim // those that the answer tells
	contends bool     // the holder's locker is told that c waits, if it hears
	revoked  []string // tokens whose lockers are told that they have lost the lock, if they hear
}

func (m *model) acquire(c *claim, join store.Join, place store.Place) (t turn) {
	m.forget()
	if m.holder == c.Token && m.set == ":~" && len(m.queue) > 0 {
		m.free() // SET came behind those who wait
	}
	switch {
	case m.holds(c):
		switch {
		case m.set != "" && c.Fence == 0:
			m.grant(c, c.TTL) // nobody was told of the grant yet
		case m.set != "":
			m.set = ""
			m.extend(c, c.TTL, c.Fence)
		default:
			m.extend(c, c.TTL, m.fence)
		}
		if join == store.Wait && len(m.queue) > 0 {
			m.heartbeat(c.member, place.Behind, false)
		}
		return turn{granted: true}
	case len(m.queue) == 0 && m.admits(c.Kind):
		m.grant(c, c.TTL)
		return turn{granted: true}
	}
	if join == store.Wait {
		m.enqueue(c, place.Waited)
		t.fresh = m.heartbeat(c.member, place.Behind, true)
		t.contends = strings.Contains(m.holder, ".") && !strings.HasPrefix(m.holder, c.member.locker+".")
	}
	full := false
	if m.holder == "" {
		heirs, kept := m.grantNext(c, c.member)
		full = kept
		if !m.holds(c) && !full && m.admits(c.Kind) {
			m.grant(c, c.TTL)
		}
		t.told, t.first = m.told(heirs, c), m.first()
		if m.holds(c) {
			m.leave(c)
			t.granted, t.fresh = true, false
			return t
		}
	}
	if join != store.Last {
		return t
	}
	left := m.leave(c)
	switch next := m.brings; {
	case next != nil && slices.Contains(m.queue, next):
		t.placed = true
	case next != nil && left && m.holder != next.Token:
		m.stand(next, place.Waited)
		m.heartbeat(c.member, place.Behind, true)
		t.placed = true
		t.contends = strings.Contains(m.holder, ".") && !strings.HasPrefix(m.holder, c.member.locker+".")
	case left && len(m.queue) == 0:
		clear(m.alive)
	}
	if left && full {
		heirs, _ := m.grantNext(c, c.member)
		t.told, t.first = append(t.told, m.told(heirs, c)...), m.first()
	}
	return t
}

// enqueue gives c the place of one who came so long ago, if it has none. While
// the last place is of a later time than now, the next is behind that.
func (m *model) enqueue(c *claim, waited time.Duration) {
	if slices.Contains(m.queue, c) {
		return
	}
	if len(m.queue) == 0 && m.set != "" {
		m.set = ":!"
	}
	m.stand(c, waited)
}

// stand gives c that place, in a queue in which it does not stand.
func (m *model) stand(c *claim, waited time.Duration) {
	c.arrival = m.in(-waited)
	if n := len(m.queue); n > 0 && m.queue[n-1].arrival >= m.now {
		c.arrival = m.queue[n-1].arrival + 1
	}
	m.queue = append(m.queue, c)
	slices.SortFunc(m.queue, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.arrival, b.arrival), strings.Compare(a.Token, b.Token))
	})
}

// heartbeat notes that a locker lives, how it hears, and how many are behind. That
// number is news by itself if it is minded.
func (m *model) heartbeat(who *member, behind int, minded bool) (fresh bool) {
	m.queueUntil = m.in(keep)
	before := m.alive[who]
	if before != nil && before.hears == who.subscribed.Load() && (!minded || before.behind == behind) && before.until > m.in(lives-signs) {
		return false
	}
	m.alive[who] = &heartbeat{m.in(lives), who.subscribed.Load(), behind}
	m.aliveUntil = m.in(keep)
	return before == nil
}

// release gives back what c has. With stay it has it for that long.
func (m *model) release(c *claim, leave bool, stay time.Duration) (t turn) {
	if leave {
		m.leave(c)
	}
	if (leave || stay > 0) && len(m.queue) == 0 {
		clear(m.alive)
	}
	m.forget()
	held, alone := m.holds(c), m.holder == c.Token
	switch {
	case m.holder != "" && !held:
		return turn{released: store.NotHeld}
	case held && stay > 0 && m.holder != "":
		m.expires = m.in(stay)
		m.done, m.stays = c.Token, m.expires
		room := min(turns, stay.Microseconds()/2)
		if c.Fence > 0 {
			room = 0
		}
		m.remember(m.known(c), room, stay)
		return turn{released: store.Freed}
	case held && stay > 0:
		s := m.share(c)
		s.ends, s.over = m.in(stay), true
		m.last()
	case held:
		m.several = slices.DeleteFunc(m.several, func(s *share) bool { return s.claim == c })
		if m.last(); len(m.several) == 0 {
			m.free()
		}
	}
	m.releasing, m.tells = c.member, alone && c.Fence > 0
	heirs, _ := m.grantNext(nil, nil)
	for _, heir := range heirs {
		if heir.member == c.member {
			t.answered = append(t.answered, heir)
		}
	}
	t.told = m.told(slices.DeleteFunc(slices.Clone(heirs), func(heir *claim) bool { return heir.member == c.member }), nil)
	t.first = m.first()
	if !m.taken() {
		m.freed()
		if len(m.queue) == 0 {
			clear(m.alive)
		}
	}
	m.releasing, m.tells = nil, false
	switch {
	case !held:
		t.released = store.NotHeld
	case len(heirs) > 0:
		t.released = store.HandedOver
	default:
		t.released = store.Freed
	}
	return t
}

// force takes the lock from whoever has it.
func (m *model) force() (t turn) {
	if !m.taken() {
		return turn{}
	}
	m.forget()
	switch {
	case m.set != "": // its fence may be as high as this
		m.fence = max(m.fence, m.since+offMost.Microseconds()+turns)
	case strings.Contains(m.holder, ".") && (m.fence != m.kept || m.fence-m.now < turns):
		m.fence += turns
	}
	if m.holder != "" {
		t.revoked = []string{m.holder}
	}
	several := slices.SortedFunc(slices.Values(m.several), func(a, b *share) int {
		return cmp.Or(cmp.Compare(a.ends, b.ends), strings.Compare(a.Token, b.Token))
	})
	for _, s := range several {
		t.revoked = append(t.revoked, s.Token)
	}
	m.free()
	heirs, _ := m.grantNext(nil, nil)
	if !m.taken() {
		m.freed()
		if len(m.queue) == 0 {
			clear(m.alive)
		}
	}
	t.told, t.first = m.told(heirs, nil), m.first()
	return t
}

func (m *model) renew(c *claim, ttl time.Duration) (held bool) {
	m.forget()
	alone := m.holder == c.Token && m.done == c.Token && m.stays > m.now
	if s := m.share(c); !m.holds(c) || alone || s != nil && s.over {
		return false
	}
	m.extend(c, ttl, m.known(c))
	return true
}

// known is the fence of c, which holds the lock alone, as far as it tells it or the lock
// does.
func (m *model) known(c *claim) int64 {
	if c.Fence == 0 && m.set == "" {
		return m.fence
	}
	return c.Fence
}

// grantNext gives the lock to those at the head of the queue, as many as there
// is room for: the one that asks; those whose locker is told, or polls, or
// asks just now. A live one without room keeps those behind it out.
func (m *model) grantNext(asks *claim, asking *member) (heirs []*claim, full bool) {
	known := make(map[*member]string)
	var passed []*claim
	for len(m.queue) > 0 && m.holder == "" && !full {
		c := m.queue[0]
		m.queue = m.queue[1:]
		how := known[c.member]
		if c == asks {
			how = "self"
		} else if how == "" {
			how = m.liveness(c.member, asking)
			known[c.member] = how
		}
		switch {
		case how == "dead":
		case how == "deaf":
			passed = append(passed, c)
		case !m.admits(c.Kind):
			passed = append(passed, c)
			full = true
		case how == "self":
			m.grant(c, c.TTL)
			heirs = append(heirs, c)
		default:
			first := firstAsked
			if how == "hears" {
				first = firstHeard
			}
			m.grant(c, c.first(first))
			heirs = append(heirs, c)
		}
	}
	if len(passed) > 0 {
		m.queueUntil = m.in(keep)
	}
	m.queue = slices.Concat(passed, m.queue)
	return heirs, full
}

// first is how long a hand-over lasts that would last d.
func (c *claim) first(d time.Duration) time.Duration { return max(min(c.TTL, d), c.Least) }

func (m *model) liveness(of, asking *member) string {
	s := m.alive[of]
	switch {
	case of == m.releasing:
		return "hears" // by the answer
	case s == nil || s.until <= m.now:
		delete(m.alive, of)
		return "dead"
	case s.hears && !of.receives && of != asking:
		s.until = min(s.until, m.in(deaf))
		return "deaf"
	case s.hears:
		return "hears"
	}
	return "polls"
}

// told are those whose locker received a message about its grant.
func (m *model) told(heirs []*claim, self *claim) (told []*claim) {
	for _, c := range heirs {
		if c != self && m.alive[c.member].hears && c.member.receives {
			told = append(told, c)
		}
	}
	return told
}
