package model

import (
	"fmt"
	"slices"
	"strings"
)

// This file has the ticket: a release that hands the lock on to it, and who goes on with the work by it. What is asked for of it is here, too.

// A ticket is what is known of the one that there is.
type ticket struct {
	number  Time  // behind the issuer's token in the lock's value; 0: the ticket was not issued yet
	resumed uint8 // one more than the claim that has had the lock by it
	handed  bool  // the lock was handed on to it
	doubted bool  // its issuer does not know whether it has handed the lock on, and has both tokens removed
}

// ticketToken is the ticket's: of a process that does not exist.
const ticketToken = "t.0"

// issue has the ticket be known, when its issuer has the lock.
func (m *machine) issue(s *state, n uint8) {
	c := &s.claims[n]
	if m.role(n) != Issues {
		return
	}
	if s.ticket.number = c.estimate; c.estimate == 0 {
		s.ticket.number = c.fence
	}
}

// mayResume reports whether a claim has the ticket that it needs.
func (s *state) mayResume() bool { return s.ticket.number != 0 }

// resumedBy notes that a claim has the lock by the ticket. That is one claim, once.
func (m *machine) resumedBy(s *state, n uint8) (wrong string) {
	if by := s.ticket.resumed; by > 0 {
		return fmt.Sprintf("the ticket has given %s the lock, and %s before", m.token(n), m.token(by-1))
	}
	s.ticket.resumed = n + 1
	return ""
}

// heardOfTicket takes in the reply to one who has asked by the ticket.
func (m *machine) heardOfTicket(s *state, o command) (wrong string) {
	c, r := &s.claims[o.claim], o.reply
	switch {
	case c.phase != asking:
	case r.yes:
		if wrong = m.resumedBy(s, o.claim); wrong == "" {
			wrong = m.hold(s, o.claim, o.sent, ttl, r.fence, 0)
		}
	case r.spent:
		m.over(s, o)
	default: // the lock was not handed on yet
		c.asked, c.phase = o.sent, waiting
	}
	return wrong
}

// doubt has the issuer give up without knowing whether it has handed the lock on.
func (m *machine) doubt(s *state, n uint8) {
	fence := s.claims[n].fence
	s.ticket.doubted = true
	s.net = slices.DeleteFunc(s.net, func(o command) bool { return o.claim == n && o.what == handOn && o.executed })
	for i := range s.net {
		if o := &s.net[i]; o.claim == n && o.what == handOn {
			o.lost = true
		}
	}
	m.abandon(s, n)
	if m.Hole != TicketStays {
		s.claims[n].discards = true
		s.send(command{what: discard, claim: n, fence: fence})
	}
}

// discarded takes in that the ticket's token was removed. It is removed again for as long as it may be handed the lock.
func (m *machine) discarded(s *state, o command) {
	c := &s.claims[o.claim]
	switch {
	case c.phase != leaving || !c.discards:
	case !o.certain:
		s.send(command{what: discard, claim: o.claim, fence: o.fence})
	case c.spent:
		*c = claim{phase: gone}
	default:
		c.discards = false
	}
}

// tickets returns what is wrong with what a command has done to the ticket's lock.
func (m *machine) tickets(s *state, o *command, before *db) string {
	token, had, has := m.token(o.claim), holders(before), holders(&s.locks[0].db)
	s.ticket.handed = s.ticket.handed || o.what == handOn && o.reply.yes
	switch {
	case o.what == handOn && o.reply.yes && (len(has) != 1 || has[0] != ticketToken):
		return fmt.Sprintf("%s has handed the lock on, and the ticket does not have it", token)
	case o.what == handOn && o.reply.yes && had[0] != token && had[0] != ticketToken:
		return fmt.Sprintf("%s has handed the lock on, and %s had it", token, had[0])
	case o.what == resume && o.reply.spent && len(has) > 0 && (has[0] == token || has[0] == ticketToken):
		return fmt.Sprintf("%s is told that the ticket is spent, and %s has the lock", token, has[0])
	case o.what == resume && o.reply.yes && had[0] != token && had[0] != ticketToken:
		return fmt.Sprintf("%s has the lock by the ticket, and %s had it", token, had[0])
	}
	return ""
}

// robsTicket returns what is wrong where the ticket had the lock, and a command has taken it: only one who goes on by the ticket may take it, and its
// issuer, who does not know whether the ticket has it. So no acquire takes it, and no command grants it to one who waits.
func (m *machine) robsTicket(s *state, o *command, before *db) string {
	token, had, has := m.token(o.claim), holders(before), holders(&s.locks[0].db)
	switch {
	case len(had) != 1 || had[0] != ticketToken, len(has) == 1 && has[0] == ticketToken, o.what == discard:
		return ""
	case o.what == resume && o.reply.yes && len(has) == 1 && has[0] == token:
		return ""
	}
	return fmt.Sprintf("the ticket had the lock, and a command of %s has taken it: %s", token, orElse(strings.Join(has, " "), "it is free"))
}

// allGone reports whether all claims are over. One that would go on with work by a ticket need not come.
func (m *machine) allGone(s *state) bool {
	for i := range m.claims() {
		if p := s.claims[i].phase; p != gone && (p != idle || m.role(uint8(i)) != Resumes) {
			return false
		}
	}
	return true
}

// ticketLies reports whether the ticket may have the lock although all are gone: nobody has come with it yet, and its issuer knows
// that it has handed the lock on.
func (m *machine) ticketLies(s *state) bool {
	if has := holders(&s.locks[0].db); s.ticket.doubted || len(has) != 1 || has[0] != ticketToken {
		return false
	}
	for i := range m.claims() {
		if m.role(uint8(i)) == Resumes && s.claims[i].phase != idle {
			return false
		}
	}
	return true
}
