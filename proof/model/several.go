package model

import (
	"fmt"
	"slices"
)

// This file has the calls for several keys, as AcquireAll makes them: a claim for each key, one after the other. What is asked for of them
// is here, too.

// parts returns the claims of a claim's call, in the order of their keys.
func (z *Size) parts(n uint8) []uint8 {
	first := n - z.lock(n)
	return allClaims[first : int(first)+z.locks()]
}

var allClaims = [mostClaims]uint8{0, 1, 2, 3}

// inTurn returns the claim of a call that is the i-th to ask.
func (z *Size) inTurn(n uint8, i int) uint8 {
	parts := z.parts(n)
	if (z.Hole == OwnOrder || z.Hole == Circle) && z.of(n)%2 == 1 {
		return parts[len(parts)-1-i]
	}
	return parts[i]
}

// waitsFor reports whether a claim's call does not have all its locks yet.
func (z *Size) waitsFor(s *state, n uint8) bool {
	return slices.ContainsFunc(z.parts(n), func(p uint8) bool { return s.claims[p].phase <= waiting })
}

// goOn has the next claim of a call ask, where those before it have their locks.
func (m *machine) goOn(s *state, n uint8) {
	for i := range m.locks() {
		switch p := m.inTurn(n, i); s.claims[p].phase {
		case holding:
		case idle:
			m.askAlone(s, p)
			return
		default:
			return
		}
	}
}

// heardOfAll takes in the reply to the command for all claims of a call.
func (m *machine) heardOfAll(s *state, o command) (wrong string) {
	if !o.reply.yes { // each asks by itself
		m.askAlone(s, m.inTurn(o.claim, 0))
		return ""
	}
	fences := [...]Time{o.reply.fence, o.reply.second}
	for i, p := range slices.Backward(m.parts(o.claim)) { // the last first, and none of them asks then
		if s.claims[p].phase <= waiting {
			wrong += m.hold(s, p, o.sent, ttl, fences[i], 0)
		}
	}
	return wrong
}

// allInDoubt notes that a command for all claims of a call has had no reply.
func (m *machine) allInDoubt(s *state, o command) {
	for _, p := range m.parts(o.claim) {
		s.claims[p].doubt = true
	}
}

// giveUp has a call end of which a claim gets no lock, or has lost it, while it waits for others: what it had is given back.
func (m *machine) giveUp(s *state, n uint8) {
	if m.locks() == 1 || !m.waitsFor(s, n) {
		return
	}
	s.claims[n].phase = leaving
	for _, p := range m.parts(n) {
		switch c := &s.claims[p]; {
		case p == n:
		case c.phase == idle && (!c.doubt || m.Hole == AllStays):
			*c = claim{phase: gone}
		case c.phase <= waiting:
			m.leave(s, p)
		case c.phase == holding && m.Hole == PartStays:
			*c = claim{phase: gone}
		case c.phase == holding:
			m.giveBack(s, p)
		}
	}
}

// renewParts renews what calls have that wait for more: at once, as if nothing could come between. What becomes of a renewal that is under way,
// one lock shows as well.
func (m *machine) renewParts(s *state) {
	if m.locks() == 1 {
		return
	}
	for i := range m.claims() {
		n := uint8(i)
		c := &s.claims[n]
		if c.phase != holding || !m.waitsFor(s, n) {
			continue
		}
		s.real++
		o := command{what: renew, claim: n, fence: c.fence}
		_, args := m.call(&o, s.now())
		if m.run(m.server(s, m.lock(n)), m.scripts(n)["renew"], args) == int64(1) {
			c.trusted = s.clock() + ttl
		} else {
			m.lose(s, n)
		}
	}
}

// outOfOrder returns what is wrong with what a call waits for: no key that stands before one that it has. If all keep to that, they never wait for one
// another in a circle.
func (m *machine) outOfOrder(s *state) string {
	if m.locks() == 1 || m.Hole == Circle {
		return ""
	}
	for i := range m.claims() {
		if s.claims[i].phase != asking && s.claims[i].phase != waiting {
			continue
		}
		for _, p := range m.parts(uint8(i)) {
			if int(p) > i && s.claims[p].phase == holding {
				return fmt.Sprintf("%s waits, and its call has a key that stands behind that one: %s", m.token(uint8(i)), m.token(p))
			}
		}
	}
	return ""
}

// stillThere returns what is wrong with what a call has left that is over, when nothing of its process is under way.
func (m *machine) stillThere(s *state) string {
	if m.locks() == 1 || s.died {
		return ""
	}
	for i := range m.claims() {
		n := uint8(i)
		goesOn := func(p uint8) bool { return s.claims[p].phase != gone }
		isOf := func(o command) bool { return m.of(o.claim) == m.of(n) }
		switch {
		case !slices.Contains(holders(&s.locks[m.lock(n)].db), m.token(n)):
		case slices.ContainsFunc(m.parts(n), goesOn), slices.ContainsFunc(s.net, isOf), len(s.lockers[m.of(n)].inbox) > 0:
		default:
			return fmt.Sprintf("the call of %s is over, and has the lock", m.token(n))
		}
	}
	return ""
}
