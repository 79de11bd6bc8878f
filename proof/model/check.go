package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// This file has the properties.

// check returns what is wrong with a state.
func (m *machine) check(s *state) string {
	for i := range m.locks() {
		if wrong := m.checkLock(s, uint8(i)); wrong != "" {
			return wrong
		}
	}
	if has := holders(&s.locks[0].db); s.real < s.stays && !s.locks[0].forgot && !slices.Contains(has, m.token(s.stayer)) {
		return fmt.Sprintf("the lock is to stay %s's for a while, and is not", m.token(s.stayer))
	}
	if wrong := m.outOfOrder(s) + m.stillThere(s) + m.releasedOnce(s); wrong != "" {
		return wrong
	}
	return m.left(s)
}

// checkLock returns what is wrong with one lock, and those who rely on it.
func (m *machine) checkLock(s *state, lock uint8) string {
	alone, sharing, permits := 0, 0, 0
	l := &s.locks[lock]
	has := holders(&l.db)
	for i := range m.claims() {
		c := &s.claims[i]
		if c.phase == holding && m.lock(uint8(i)) == lock && s.real < c.trusted && !s.lockers[m.of(uint8(i))].dead {
			if l.robbed>>i&1 == 1 { // it learns of that by its next renewal, or by a message
				continue
			}
			if token := m.token(uint8(i)); !slices.Contains(has, token) {
				return fmt.Sprintf("%s relies on the lock, and Redis has not kept it for that long", token)
			}
			switch m.kind(uint8(i)) {
			case Exclusive:
				alone++
			case Shared:
				sharing++
			case Permit:
				permits++
			}
		}
	}
	if alone > 1 || permits > 2 || min(alone, 1)+min(sharing, 1)+min(permits, 1) > 1 {
		return "two rely on the lock at the same time"
	}
	for i, e := range l.db {
		if e.kind != absent && e.ends == 0 {
			return keyNames[lock][i] + " has no TTL"
		}
	}
	return ""
}

// left returns what is wrong with what is there when all have gone and nothing is on its way.
func (m *machine) left(s *state) string {
	if len(s.net) > 0 || !m.allGone(s) {
		return ""
	}
	if wrong := m.uncertain(s); wrong != "" || s.died {
		return wrong
	}
	for i := range m.Lockers {
		if len(s.lockers[i].inbox) > 0 {
			return ""
		}
	}
	if m.ticketLies(s) || m.coolsDown(s) || m.robbedAgain(s) {
		return ""
	}
	for lock := range m.locks() {
		for i, e := range s.locks[lock].db {
			if e.kind != absent && e.ends > s.now() && m.isLeft(s, lock, key(i)) {
				return fmt.Sprintf("all have gone, and %s is left: %s", keyNames[lock][i], e.show())
			}
		}
	}
	return ""
}

// isLeft reports whether a key is one that is to go with the last who wanted the lock. A fence stays for a second: where
// several have held, where the clock was set back, and behind a release by force.
func (m *machine) isLeft(s *state, lock int, k key) bool {
	if k == keyLockers && s.moved { // a release by the lock's own key does not reach it
		return false
	}
	if k == keyAnswer || k == keyLockers && s.ticket.handed && s.ticket.resumed == 0 { // nobody has given the lock back
		return false // it ends by its TTL
	}
	return k != keyFence || s.back == 0 && !s.locks[lock].forgot && len(m.Kinds) == 0 && !m.Stays
}

// coolsDown reports whether the lock only stays taken: it ends by its TTL. Scripts of older versions do not write that down; theirs ends
// as much later than it has to as the release was on its way.
func (m *machine) coolsDown(s *state) bool {
	token, _, _ := strings.Cut(s.locks[0].db[keyLock].text, ":")
	if s.stays > 0 && token == m.token(s.stayer) && s.locks[0].db[keyLock].ends <= s.stays+second+unit {
		return true
	}
	at := s.locks[0].db[keyHolders].find(token)
	if token == "" || at < 0 {
		return false
	}
	_, part := math.Modf(s.locks[0].db[keyHolders].members[at].score)
	return part != 0
}

// robbedAgain reports whether somebody has a lock who had it before, when Redis did not keep its word, and has gone: a question that was under way then may
// have taken a place in the queue behind the next holder, and nobody knows of it. That lock ends by its TTL.
func (m *machine) robbedAgain(s *state) bool {
	for i := range m.locks() {
		for _, token := range holders(&s.locks[i].db) {
			if token != ticketToken && s.locks[i].robbed>>m.claimBy(token)&1 == 1 {
				return true
			}
		}
	}
	return false
}

// show tells what a key holds.
func (e *entry) show() string {
	if e.kind == text {
		return e.text
	}
	var b strings.Builder
	for i, m := range e.members {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s%s", m.name, m.value, map[bool]string{true: score(m.score)}[e.kind == zset])
	}
	return b.String()
}

// holders returns the tokens that have the lock.
func holders(d *db) (all []string) {
	value := d[keyLock].text
	switch {
	case value == "":
	case value[0] != '*':
		token, _, _ := strings.Cut(value, ":")
		all = append(all, token)
	default:
		for _, m := range d[keyHolders].members {
			if m.name[0] != '=' {
				all = append(all, m.name)
			}
		}
	}
	return all
}

// first returns the token of the first in a lock's queue who waits, is there, and can be told, or "".
func (m *machine) first(s *state, lock uint8) string {
	d := &s.locks[lock].db
	for _, waiter := range d[keyQueue].members {
		if token, _, _ := strings.Cut(waiter.name, ":"); m.canBeTold(s, d, token) {
			return token
		}
	}
	return ""
}

// canBeTold reports whether one in a lock's queue waits, is there, and can be told.
func (m *machine) canBeTold(s *state, d *db, token string) bool {
	n, alive := m.claimBy(token), &d[keyLockers]
	at := alive.find(token[:1])
	if at < 0 || !m.isThere(s, n) {
		return false
	}
	till, _, _ := strings.Cut(alive.members[at].value, "v")
	return number(till) > s.now()
}

// comes notes when a claim begins, and who stands in the queue by then: whole seconds would not tell who came first in one of them. One whose place
// is ahead of the clock, because that was set back, does not count: places are reckoned by the clock.
func (m *machine) comes(s *state, n uint8) {
	c := &s.claims[n]
	c.came, c.ahead = s.clock(), 0
	for _, waiter := range s.locks[m.lock(n)].db[keyQueue].members {
		if Time(waiter.score) <= s.now() {
			c.ahead |= 1 << m.claimBy(waiter.name)
		}
	}
}

// passed returns the token of one who stood in the queue when a command's claim came, and stands there now, and can be told, or "". A claim that has a
// place itself passes by nobody: the places tell who comes first.
func (m *machine) passed(s *state, o *command) string {
	d := &s.locks[m.lock(o.claim)].db
	for _, waiter := range d[keyQueue].members {
		token, _, _ := strings.Cut(waiter.name, ":")
		if n := m.claimBy(token); o.ahead>>n&1 == 1 && m.canBeTold(s, d, token) {
			return token
		}
	}
	return ""
}

// forgetOrder clears what is noted of those who stood in the queue when others came, and do not stand there any more, and of a claim that has a place
// itself.
func (m *machine) forgetOrder(s *state) {
	stand := uint8(0)
	for i := range m.locks() {
		for _, waiter := range s.locks[i].db[keyQueue].members {
			stand |= 1 << m.claimBy(waiter.name)
		}
	}
	keep := func(ahead *uint8, n uint8) {
		if *ahead &= stand; stand>>n&1 == 1 {
			*ahead = 0
		}
	}
	for i := range s.claims {
		keep(&s.claims[i].ahead, uint8(i))
	}
	for i := range s.net {
		keep(&s.net[i].ahead, s.net[i].takes())
	}
}

// forgetAhead clears what is noted of who stood in the queue when others came.
func (s *state) forgetAhead() {
	for i := range s.claims {
		s.claims[i].ahead = 0
	}
	for i := range s.net {
		s.net[i].ahead = 0
	}
}

// before reports whether the one that waits comes before the one that has the lock now: by their places in the queue as it was, or
// where the latter had none, because it came before.
func (m *machine) before(s *state, was *db, waits, has string) bool {
	if waits == "" || waits == has {
		return false
	}
	place := func(token string) (arrival float64, ok bool) {
		for _, waiter := range was[keyQueue].members {
			if waiter.name[:len(token)] == token {
				return waiter.score, true
			}
		}
		return 0, false
	}
	if its, ok := place(has); ok {
		front, _ := place(waits)
		return front < its
	}
	if m.Rests && s.back > 0 { // places are reckoned by the clock, so one that was set back may exchange two
		return false
	}
	if m.Rests { // it may have rested, and be told of now
		front, _ := place(waits)
		return Time(front) < s.claims[m.claimBy(has)].local.entered
	}
	return s.claims[m.claimBy(waits)].came < s.claims[m.claimBy(has)].came
}
