package model

import (
	"fmt"
	"slices"
)

// This file has what a Locker does: what it sends, and what it makes of replies and messages.

// ask sends a claim's question.
func (m *machine) ask(s *state, n uint8, last bool) {
	if m.Rests && s.claims[n].phase == idle && m.rests(s, n) {
		return
	}
	if m.AtOnce && s.claims[n].phase == idle {
		s.send(command{what: all, claim: n - m.lock(n)})
		s.claims[n].phase = asking
		return
	}
	m.askBy(s, n, last)
}

// askAlone has a claim of a call for several keys ask by itself, for the first time.
func (m *machine) askAlone(s *state, n uint8) {
	s.claims[n].phase = idle
	m.askBy(s, n, false)
}

// askBy sends a claim's question by itself.
func (m *machine) askBy(s *state, n uint8, last bool) {
	c := &s.claims[n]
	c.behind = c.behind || c.phase == idle && m.Async && m.gives(s, n)
	if c.phase == idle && m.Do && !m.Notes {
		c.arrived = s.real
	}
	if c.phase == idle && m.role(n) != Resumes {
		m.comes(s, n)
	}
	switch {
	case m.role(n) == Resumes:
		s.send(command{what: resume, claim: n, fence: s.ticket.number})
	case c.phase != idle:
		next, brings := uint8(0), false
		if last {
			next, brings = m.brings(s, n)
		}
		s.send(command{what: acquire, claim: n, last: last, next: next, brings: brings})
	case m.Do:
		s.send(command{what: acquire, claim: n, last: !m.Waits})
	case m.kind(n) == Exclusive && !m.NoSet && !c.doubt:
		o := command{what: set, claim: n, estimate: s.clock()}
		if at := m.goesBehind(s, n); at >= 0 {
			s.net[at].followed, o.follows = true, true
		}
		s.send(o)
	default:
		s.send(command{what: acquire, claim: n, last: !m.Waits})
	}
	c.phase = asking
}

// leave has a claim's caller not wait any more.
func (m *machine) leave(s *state, n uint8) {
	if s.claims[n].phase == resting { // Redis does not know it
		s.claims[n] = claim{phase: gone}
		return
	}
	for i := range s.net {
		if c := &s.net[i]; c.claim == n {
			c.lost = true
			if c.what == all && m.Hole != LeavesInAll {
				m.allInDoubt(s, *c)
			}
			if c.brings {
				m.offerUnanswered(s, c.next)
			}
		}
	}
	s.net = slices.DeleteFunc(s.net, func(c command) bool { return c.claim == n && c.lost && c.executed })
	m.abandon(s, n)
}

// abandon has the janitor remove what a claim may have.
func (m *machine) abandon(s *state, n uint8) {
	m.giveUp(s, n)
	if m.Hole == NoCleanUp {
		s.claims[n] = claim{phase: gone}
		return
	}
	c := &s.claims[n]
	*c = claim{phase: leaving, fence: c.fence, discards: c.discards, since: c.since}
	if c.since == 0 || c.since+minHold <= s.clock() || m.Hole == StayCutShort {
		m.clear(s, n)
	}
}

// clear sends the removal of what a claim may have left, when nothing of it is to stay.
func (m *machine) clear(s *state, n uint8) {
	s.claims[n].since = 0
	s.send(command{what: remove, claim: n, fence: s.claims[n].fence})
}

// giveBack sends a release.
func (m *machine) giveBack(s *state, n uint8) {
	c := &s.claims[n]
	c.phase, c.trusted = giving, 0
	how := release
	if c.estimate != 0 && !c.released && (!m.Async || m.Hole == GiveFirst) {
		how = give
	}
	if m.role(n) == Issues && !c.undone {
		how = handOn
	}
	next, offers := uint8(0), false
	if !c.released {
		next, offers = m.offersTo(s, n)
	}
	if offers {
		how = offer
	}
	var stay Time
	if m.isToStay(s, n) {
		how, stay = release, c.since+minHold-s.clock()
	}
	keeps := m.Do && !c.served && (!c.undone || m.Hole != NoTakingBack)
	estimate := c.estimate
	if how == release && (!m.Async || c.released || stay > 0) { // the first one that is not awaited tells what SET wrote
		estimate = 0
	}
	s.send(command{what: how, claim: n, fence: c.fence, estimate: estimate, stay: stay, keeps: keeps, undone: keeps && c.undone, next: next})
}

// serve has a claim have the answer of another one.
func (m *machine) serve(s *state, n uint8) {
	c := &s.claims[n]
	if c.phase == holding {
		c.served = true
		m.giveBack(s, n)
		return
	}
	m.abandon(s, n)
}

// hold has a claim hold the lock from a moment on, if it can be relied on now.
func (m *machine) hold(s *state, n uint8, from Time, lasts, fence, estimate Time) (wrong string) {
	c := &s.claims[n]
	if m.Hole == FromReply {
		from = s.clock()
	}
	if from+lasts <= s.real {
		m.abandon(s, n)
		return ""
	}
	l := &s.locks[m.lock(n)]
	highest := l.highest
	if m.kind(n) != Exclusive { // those who share may learn of it in any order
		highest = l.highestAlone
	} else {
		l.highestAlone = max(l.highestAlone, fence)
	}
	if fence <= highest && l.robbed>>n&1 == 0 { // of one who was robbed another may have the lock by now, and learn of it first
		wrong = fmt.Sprintf("the fence of %s is not higher than that of an earlier holder", m.token(n))
	}
	l.highest = max(l.highest, fence)
	c.phase, c.trusted, c.fence, c.estimate = holding, from+lasts, fence, estimate
	if m.Stays {
		c.since = from
	}
	if m.Rests {
		c.local.granted = from
	}
	m.issue(s, n)
	m.goOn(s, n)
	return wrong
}

// holdByNews has a claim hold the lock of which a message has told.
func (m *machine) holdByNews(s *state, n uint8) (wrong string) {
	had := s.claims[n].news
	return m.hold(s, n, had.since, had.lasts, had.fence, 0)
}

// heardOfSet takes in the reply to the four commands of set.go.
func (m *machine) heardOfSet(s *state, o command) (wrong string) {
	r := o.reply
	if m.Hole == NoLook {
		r.alone, r.same = true, true
	}
	near := r.clock-o.estimate <= second && o.estimate-r.clock <= second
	if r.yes && r.alone && r.same && near {
		if r.jumped {
			wrong = fmt.Sprintf("%s has overtaken one that waits", m.token(o.claim))
		}
		fence := r.clock
		if m.Hole == LocalFence {
			fence = o.estimate
		}
		return wrong + m.hold(s, o.claim, o.sent, ttl, fence, o.estimate)
	}
	m.askByScript(s, o)
	return ""
}

// askByScript sends the question of a claim for which the four commands of set.go, o, have not done. Where they followed a release whose reply has not come,
// that is awaited first.
func (m *machine) askByScript(s *state, o command) {
	if o.follows && m.gives(s, o.claim) {
		s.claims[o.claim] = claim{phase: idle, doubt: true}
		return
	}
	s.send(command{what: acquire, claim: o.claim, last: !m.Waits})
}

// hearReply takes in the reply of a command that somebody waits for.
func (m *machine) hearReply(s *state, o command) (wrong string) {
	c, r := &s.claims[o.claim], o.reply
	if s.lockers[m.of(o.claim)].dead {
		return ""
	}
	if r.next > 0 {
		wrong = m.hear(s, message{claim: r.next - 1, fence: r.fence, at: r.clock, first: r.first, waits: r.waits})
	}
	switch o.what {
	case set:
		return wrong + m.heardOfSet(s, o)
	case all:
		return wrong + m.heardOfAll(s, o)
	case acquire:
		c.asked, c.answered = o.sent, r.clock
		if o.brings {
			m.brought(s, o)
		}
		switch {
		case r.answer > 0, r.begun > 0:
			wrong += m.told(s, r.answer)
			m.serve(s, o.claim)
		case r.yes:
			c.looked = m.Do && !m.Notes
			m.contend(c, r.waits)
			return wrong + m.hold(s, o.claim, o.sent, ttl, r.fence, 0)
		case c.news != (news{}):
			return wrong + m.holdByNews(s, o.claim)
		case o.last:
			m.over(s, o)
		default:
			c.phase = waiting
		}
	case resume:
		return wrong + m.heardOfTicket(s, o)
	case discard:
		m.discarded(s, o)
	case renew:
		if c.phase != holding {
			break
		}
		if r.yes {
			c.trusted = max(c.trusted, o.sent+ttl)
		} else {
			m.lose(s, o.claim)
		}
	case note:
		wrong += m.mayBegin(s, o)
	case find:
		wrong += m.found(s, o)
	case resolve: // nobody waits for it
	case look:
		switch {
		case c.phase != holding:
		case r.answer > 0:
			m.serve(s, o.claim)
		default:
			c.looked = true
		}
	case give:
		if !r.yes {
			c.released = true // the script is next
			m.giveBack(s, o.claim)
			break
		}
		m.over(s, o)
	case handOn:
		if !r.yes { // nothing that the lock's queue has left was looked at
			m.abandon(s, o.claim)
			break
		}
		m.over(s, o)
	case offer:
		wrong += m.offerEnded(s, o)
		m.over(s, o)
	case release, remove:
		if m.Notes && o.keeps {
			return wrong + m.kept(s, o)
		}
		m.over(s, o)
	}
	return wrong
}

// over ends a claim after a command that gives back, unless another one could arrive behind it and take the lock.
func (m *machine) over(s *state, o command) {
	m.giveUp(s, o.claim)
	if (!o.certain || o.what != remove && s.claims[o.claim].doubt) && m.Hole != EarlyCleanUp {
		m.abandon(s, o.claim)
		return
	}
	if c := &s.claims[o.claim]; c.discards {
		c.spent = true // the ticket's token is left
		return
	}
	s.claims[o.claim] = claim{phase: gone, since: s.claims[o.claim].since}
}

// hear takes in a message.
func (m *machine) hear(s *state, msg message) (wrong string) {
	c := &s.claims[msg.claim]
	switch {
	case s.lockers[m.of(msg.claim)].dead:
	case msg.contended:
		if c.phase == asking || c.phase == waiting || c.phase == holding {
			m.noteTold(s, msg)
			m.contend(c, msg.waits)
		}
	case msg.revoked:
		if c.phase == holding {
			m.lose(s, msg.claim)
		}
	case m.Rests && c.answered == 0 && c.phase == waiting: // the server's clock is not known
		m.ask(s, msg.claim, false)
	case m.Rests && c.answered == 0 && c.phase == asking: // the reply says so, too
	case c.phase == waiting, c.phase == asking && c.asked != 0:
		m.contend(c, msg.waits)
		// The grant was not before the last question was sent, and as long after its answer as the server's clock says.
		c.news = news{msg.fence, c.asked + msg.at - c.answered, msg.first}
		if c.phase == waiting { // otherwise the reply is awaited, which may say the same
			return m.holdByNews(s, msg.claim)
		}
	case c.phase == gone && (c.since == 0 || c.since+minHold <= s.clock() || m.Hole == StayForgotten): // otherwise it was told before, and only stays
		c.since = 0
		m.abandon(s, msg.claim)
	}
	return ""
}
