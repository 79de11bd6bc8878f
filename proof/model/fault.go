package model

import (
	"fmt"
	"slices"
	"strings"
)

// This file has what goes wrong.

// fault has something go wrong.
func (m *machine) fault(s *state, f Fault, at int) (wrong string) {
	switch f {
	case LoseReply:
		if at >= alone {
			return m.loseReply(s, at-alone)
		}
		return m.loseConnection(s, at)
	case LoseMessage:
		s.lockers[at].inbox = slices.Clone(s.lockers[at].inbox[1:])
	case Crash:
		s.died = true
		s.lockers[at] = locker{dead: true}
		for i := range m.claims() {
			if int(m.of(uint8(i))) == at {
				s.claims[i] = claim{phase: gone}
			}
		}
		for i := range s.net {
			if int(m.of(s.net[i].claim)) == at {
				s.net[i].lost = true
			}
		}
		s.net = slices.DeleteFunc(s.net, func(c command) bool { return int(m.of(c.claim)) == at && c.executed })
	case Deafen:
		s.lockers[at].deaf, s.lockers[at].inbox = true, nil
		for i := range m.claims() {
			if c := &s.claims[i]; m.Rests && int(m.of(uint8(i))) == at && c.phase != gone {
				c.local.missed = true
			}
		}
	case Delete:
		m.rob(s, at)
		s.locks[at].db[keyLock] = entry{}
	case Forget:
		for i := range s.locks {
			m.rob(s, i)
			s.locks[i].db = db{}
		}
	case Force:
		return m.force(s, at)
	case MoveSlot:
		s.moving, s.moved = true, true
	case SetBack:
		s.back += second
		s.forgetAhead() // the places of those who come are reckoned by the clock
		for i := range m.locks() {
			if l := &s.locks[i]; m.nobodyHolds(s, &l.db) { // then nothing remembers the last fence, as docs and Lease.Fence say
				l.highest, l.highestAlone = 0, 0
			}
		}
	}
	return ""
}

// loseConnection has a command have no reply, nor what follows it on its connection.
func (m *machine) loseConnection(s *state, at int) (wrong string) {
	if gone := s.net[at]; gone.followed && !gone.executed {
		if i := slices.IndexFunc(s.net, func(o command) bool { return o.follows && !o.lost && m.of(o.claim) == m.of(gone.claim) }); i >= 0 {
			wrong = m.loseReply(s, i)
			at = slices.IndexFunc(s.net, func(o command) bool { return o == gone })
		}
	}
	return wrong + m.loseReply(s, at)
}

// vanish has a command never arrive that nobody waits for, nor what follows it on its connection.
func (m *machine) vanish(s *state, at int) {
	gone := s.net[at]
	s.net = slices.Delete(s.net, at, at+1)
	if gone.followed {
		s.net = slices.DeleteFunc(s.net, func(o command) bool { return o.follows && o.lost && m.of(o.claim) == m.of(gone.claim) })
	}
}

// force has an operator release a lock by force.
func (m *machine) force(s *state, lock int) (wrong string) {
	s.real++
	srv := m.server(s, uint8(lock))
	front := m.first(s, uint8(lock))
	m.rob(s, lock)
	got := m.run(srv, m.scripts(0)["force"], []string{prefix})
	if text, failed := got.(errReply); failed {
		return string(text)
	}
	for _, p := range srv.published {
		m.deliver(s, p)
	}
	if front != "" && holders(srv.db) == nil {
		return fmt.Sprintf("%s waits, and was not handed the lock that was released by force", front)
	}
	return ""
}

// rob notes who has a lock of which Redis does not keep its word: another may have it before they learn of that.
func (m *machine) rob(s *state, lock int) {
	l := &s.locks[lock]
	l.forgot = true
	for _, token := range holders(&l.db) {
		if token != ticketToken {
			l.robbed |= 1 << m.claimBy(token)
		}
	}
}

// forgetRobbed clears the mark of those who have gone and have nothing of the lock.
func (m *machine) forgetRobbed(s *state) {
	for i := range m.locks() {
		l := &s.locks[i]
		for n := range uint8(m.claims()) {
			if l.robbed>>n&1 == 0 || s.claims[n].phase != gone {
				continue
			}
			token := m.token(n)
			waits := slices.ContainsFunc(l.db[keyQueue].members, func(w member) bool { return strings.HasPrefix(w.name, token+":") })
			if !waits && !slices.Contains(holders(&l.db), token) {
				l.robbed &^= 1 << n
			}
		}
	}
}

// loseReply has a command's caller be without a reply. It may have been carried out, or may be so later, or never.
func (m *machine) loseReply(s *state, at int) (wrong string) {
	o := s.net[at]
	if o.executed {
		s.net = slices.Delete(s.net, at, at+1)
	} else {
		s.net[at].lost = true
	}
	c := &s.claims[o.claim]
	switch o.what {
	case set, acquire, all:
		c.doubt = true
		if o.what == all {
			m.allInDoubt(s, o)
		}
		if o.brings {
			m.offerUnanswered(s, o.next)
		}
		switch {
		case m.Waits && o.what == all:
			m.askAlone(s, o.claim)
		case !m.Waits:
			m.abandon(s, o.claim)
		case c.news != (news{}):
			return m.holdByNews(s, o.claim)
		case o.what == set:
			m.askByScript(s, o)
		default:
			s.send(command{what: acquire, claim: o.claim, last: o.last})
		}
	case resume:
		c.doubt = true
		s.send(command{what: resume, claim: o.claim, fence: o.fence})
	case discard:
		s.send(command{what: discard, claim: o.claim, fence: o.fence})
	case give, release, handOn:
		c.released = true
		m.giveBack(s, o.claim)
	case offer:
		c.released = true
		m.giveBack(s, o.claim)
		m.offerUnanswered(s, o.next)
	case remove:
		s.send(command{what: remove, claim: o.claim, fence: o.fence})
	case note:
		c.unsure = true
	case find:
		if c.phase == giving {
			s.send(command{what: find, claim: o.claim, fence: o.fence})
		}
	case renew, look, resolve: // the next one may come through; nobody waits for the last
	}
	return ""
}

// nobodyHolds reports whether the lock is free, or was taken by SET by one who was told no fence yet.
func (m *machine) nobodyHolds(s *state, d *db) bool {
	token, fence, _ := strings.Cut(d[keyLock].text, ":")
	if token == "" {
		return true
	}
	if fence == "" || fence[0] != '~' && fence[0] != '!' {
		return false
	}
	p := s.claims[m.claimBy(token)].phase
	return p != holding && p != giving
}
