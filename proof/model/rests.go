package model

import (
	"fmt"
	"slices"
)

// This file has the waiters of a process that rest while another call of it asks, or has the lock, and what that one does for them when it is released: it
// passes the lock on without a command, or offers it with its release. What is asked for of that is here, too.
//
// What a Locker has in Redis under one token is its tenure, and has the name of the claim that took it. Where the lock passes on, the claim that
// gets it is over, and the tenure goes on with its work.

// localPass is for how long from its grant on a tenure passes the lock on.
const localPass = second

// siblings returns the claims of a claim's Locker.
func (z *Size) siblings(n uint8) []uint8 {
	first := int(z.of(n)) * z.Claims
	return allClaims[first : first+z.Claims]
}

// rests has a claim that begins rest, if another one of its Locker sees to its turn, and reports whether it does.
func (m *machine) rests(s *state, n uint8) bool {
	s.real++
	c := &s.claims[n]
	c.local = local{entered: s.real, missed: s.lockers[m.of(n)].deaf}
	if m.isSeenTo(s, n) {
		m.comes(s, n)
		c.phase, c.asked = resting, s.clock()
		return true
	}
	return false
}

// isSeenTo reports whether a call of a claim's Locker has the lock, or stands in Redis's queue, or asks: that one sees to the turn of those who rest.
func (z *Size) isSeenTo(s *state, n uint8) bool {
	return slices.ContainsFunc(z.siblings(n), func(other uint8) bool {
		p := s.claims[other].phase
		return p == holding || p == asking || p == waiting
	})
}

// firstOf returns the first of a Locker that waits.
func (z *Size) firstOf(s *state, n uint8) (first uint8, ok bool) {
	for _, other := range z.siblings(n) {
		if c := &s.claims[other]; c.phase >= resting && c.phase <= waiting && (!ok || c.local.entered < s.claims[first].local.entered) {
			first, ok = other, true
		}
	}
	return first, ok
}

// isFront reports whether a claim is the first of its Locker that waits.
func (z *Size) isFront(s *state, n uint8) bool {
	first, ok := z.firstOf(s, n)
	return ok && first == n
}

// promote has the first of those who rest ask, where nobody sees to their turn any more.
func (m *machine) promote(s *state) {
	for i := range m.Lockers {
		if s.lockers[i].dead {
			continue
		}
		n := uint8(i * m.Claims)
		if first, ok := m.firstOf(s, n); ok && !m.isSeenTo(s, n) {
			m.ask(s, first, false)
		}
	}
}

// contend notes when the first came who is known to wait elsewhere for a claim's lock; 0 says nothing.
func (m *machine) contend(c *claim, came Time) {
	if came != 0 && (c.local.others == 0 || came < c.local.others) && m.Hole != OthersUnseen {
		c.local.others = came
	}
}

// heir returns the claim to which one passes the lock on when it is released, if it may.
func (z *Size) heir(s *state, n uint8) (next uint8, ok bool) {
	c := &s.claims[n]
	next, ok = z.firstOf(s, n)
	switch {
	case !z.Rests, !ok, s.claims[next].phase != resting, c.doubt, c.local.missed, c.trusted-s.clock() < ttl/2:
		return 0, false
	case s.clock()-c.local.granted > localPass && z.Hole != PassesOn:
		return 0, false
	case c.local.others != 0 && c.local.others < s.claims[next].local.entered:
		return 0, false
	}
	return next, true
}

// release ends what a claim, and those of its call, have had.
func (m *machine) release(s *state, n uint8) (wrong string) {
	if next, ok := m.heir(s, n); ok {
		return m.passOn(s, n, next)
	}
	for _, p := range m.parts(n) {
		if s.claims[p].phase == holding {
			m.giveBack(s, p)
		}
	}
	return ""
}

// passOn has the next claim of the Locker have the lock, by the tenure of the one that had it.
func (m *machine) passOn(s *state, n, next uint8) (wrong string) {
	c, l := &s.claims[n], &s.locks[m.lock(n)]
	wrong = m.passesBy(s, n, next)
	s.real++ // the work has taken a moment, so the next fence of Redis is higher than this one
	if m.Hole == EachReleases {
		m.giveBack(s, n)
		c.phase, c.trusted = holding, s.clock()+ttl
	}
	c.fence++
	if c.fence <= l.highest && l.robbed>>n&1 == 0 {
		return fmt.Sprintf("the fence of %s is not higher than that of an earlier holder", m.token(next))
	}
	l.highest, l.highestAlone = max(l.highest, c.fence), max(l.highestAlone, c.fence)
	s.claims[next] = claim{phase: gone}
	return wrong
}

// passesBy returns what is wrong with whom a lock passes by: one of another Locker, in Redis's queue, that came before the one that gets it. One that
// stood there when Redis granted the lock is not passed by, nor one of which the Locker has heard. Another one is, for a second at most.
func (m *machine) passesBy(s *state, n, next uint8) string {
	for _, waiter := range s.locks[m.lock(n)].db[keyQueue].members {
		other := m.claimBy(waiter.name)
		if m.of(other) == m.of(n) || Time(waiter.score) >= s.claims[next].local.entered || !m.isThere(s, other) {
			continue
		}
		switch {
		case s.claims[n].local.known>>other&1 == 1:
			return fmt.Sprintf("the lock passes on to %s, and Redis has told of %s, which came before", m.token(next), m.token(other))
		case s.clock()-s.claims[n].local.granted > localPass:
			return fmt.Sprintf("the lock passes on to %s more than a second after Redis granted it, and %s came before", m.token(next), m.token(other))
		}
	}
	return ""
}

// releasedOnce returns what is wrong with a tenure that goes on: it ends with its release, of which there is one.
func (m *machine) releasedOnce(s *state) string {
	for i := range s.net {
		if o := &s.net[i]; m.Rests && (o.what == give || o.what == release || o.what == offer) && s.claims[o.claim].phase == holding {
			return fmt.Sprintf("%s is released in Redis, and its tenure goes on", m.token(o.claim))
		}
	}
	return ""
}

// isThere reports whether a claim waits whose process can be told.
func (m *machine) isThere(s *state, n uint8) bool {
	l, p := &s.lockers[m.of(n)], s.claims[n].phase
	return !l.dead && !l.deaf && (p == waiting || p == asking)
}

// noteAhead notes who of other Lockers stands in the queue when Redis grants the lock.
func (m *machine) noteAhead(s *state, before, after *db) {
	had := holders(before)
	for _, token := range holders(after) {
		if slices.Contains(had, token) {
			continue
		}
		c := &s.claims[m.claimBy(token)]
		for _, waiter := range after[keyQueue].members {
			if waiter.name[0] != token[0] {
				c.local.known |= 1 << m.claimBy(waiter.name)
			}
		}
	}
}

// noteTold notes of whom a message has told.
func (m *machine) noteTold(s *state, msg message) {
	for _, waiter := range s.locks[m.lock(msg.claim)].db[keyQueue].members {
		if other := m.claimBy(waiter.name); Time(waiter.score) == msg.waits && m.of(other) != m.of(msg.claim) {
			s.claims[msg.claim].local.known |= 1 << other
		}
	}
}

// offersTo returns the claim to which a release offers the lock: the first of the Locker, unless Redis knows it.
func (m *machine) offersTo(s *state, n uint8) (next uint8, ok bool) {
	next, ok = m.firstOf(s, n)
	if !m.Rests || !ok {
		return 0, false
	}
	c := &s.claims[next]
	switch c.phase {
	case resting:
		c.phase, c.asked = waiting, s.clock()
	case asking:
		if c.news != (news{}) {
			return 0, false
		}
	default:
		return 0, false
	}
	return next, true
}

// brings returns the claim that has a place when one of its Locker has asked for the last time: the first behind it, unless Redis knows that one.
func (m *machine) brings(s *state, n uint8) (next uint8, ok bool) {
	if !m.Rests || !m.isFront(s, n) {
		return 0, false
	}
	for _, other := range m.siblings(n) {
		if c := &s.claims[other]; c.phase == resting && (!ok || c.local.entered < s.claims[next].local.entered) {
			next, ok = other, true
		}
	}
	if !ok {
		return 0, false
	}
	c := &s.claims[next]
	c.local.due = s.locks[m.lock(n)].db[keyQueue].find(m.token(n)+":"+m.terms(n)) >= 0
	if m.Hole == BringsNobody {
		return 0, false
	}
	c.phase, c.asked = waiting, s.clock()
	return next, true
}

// brought takes in what a claim's last question has brought the next one of its Locker: a place, unless the claim has the lock.
func (m *machine) brought(s *state, o command) {
	c := &s.claims[o.next]
	c.local.due = false
	switch {
	case c.phase != waiting:
	case o.reply.placed:
		c.asked, c.answered = o.sent, o.reply.clock
	default:
		m.ask(s, o.next, false)
	}
}

// passesDue returns what is wrong where Redis has given the lock to a claim, and one of another Locker that came before it has no place because the one
// that stood there for it has asked for the last time. Where that one has been given the lock, and let it lapse, nobody stood there.
func (m *machine) passesDue(s *state, before, after *db) string {
	had := holders(before)
	stands := func(first uint8) bool {
		return slices.ContainsFunc(after[keyQueue].members, func(w member) bool { return m.of(m.claimBy(w.name)) == m.of(first) })
	}
	for _, token := range holders(after) {
		if slices.Contains(had, token) {
			continue
		}
		n := m.claimBy(token)
		for _, next := range m.siblings(n) { // it has no place because of that
			s.claims[next].local.due = false
		}
		for i := range m.claims() {
			first, c := uint8(i), &s.claims[i]
			waits := c.local.due && c.phase >= resting && c.phase <= waiting && s.faults == 0
			if waits && m.of(first) != m.of(n) && c.local.entered < s.claims[n].local.entered && !stands(first) {
				return fmt.Sprintf("%s has overtaken %s, which has no place", token, m.token(first))
			}
		}
	}
	return ""
}

// offerEnded takes in the reply to a release that has offered the lock.
func (m *machine) offerEnded(s *state, o command) (wrong string) {
	c, r := &s.claims[o.next], o.reply
	switch {
	case r.given != 0 && (c.phase == waiting || c.phase == asking):
		m.contend(c, r.waits)
		c.news = news{r.given, o.sent, ttl}
		if c.phase == waiting { // otherwise the reply is awaited, which may say the same
			wrong = m.holdByNews(s, o.next)
		}
	case r.given != 0 && c.phase == gone:
		m.abandon(s, o.next)
	case c.phase != waiting:
	case r.yes:
		c.asked, c.answered = o.sent, r.clock
	default: // what was to be given back was not there
		m.ask(s, o.next, false)
	}
	return wrong
}

// offerUnanswered has the claim ask to which a release has offered the lock that has had no reply.
func (m *machine) offerUnanswered(s *state, n uint8) {
	c := &s.claims[n]
	switch c.phase {
	case waiting:
		c.doubt = true
		m.ask(s, n, false)
	case asking:
		c.doubt = true
	case gone:
		m.abandon(s, n)
	case idle, resting, holding, giving, leaving:
	}
}

// forgetTenures clears what is known of who waits elsewhere, where nobody is left to whom the lock could pass on.
func (m *machine) forgetTenures(s *state) {
	for i := range m.claims() {
		c := &s.claims[i]
		mayFollow := func(n uint8) bool {
			p := s.claims[n].phase
			return p == idle || p == resting || p == asking || p == waiting
		}
		if c.phase == holding && !slices.ContainsFunc(m.siblings(uint8(i)), mayFollow) || c.phase == giving {
			c.local = local{}
		}
	}
}
