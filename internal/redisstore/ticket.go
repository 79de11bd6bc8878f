package redisstore

import (
	"strconv"
	"strings"

	"github.com/lockmw/kit/internal/store"
)

// Tickets: a lock is handed on to the token of a ticket (lua/handon.lua), and goes from that to whoever asks for it by the ticket
// (lua/resume.lua). The ticket's token reads as any other one, and so scripts of earlier versions take it for a holder that is never renewed.
// Its first part is the name of no Locker, because names are escaped: messages about it reach nobody, and no Locker takes it for its own.

// onTicket stands before the name of the Locker that has issued a ticket, in the ticket's token.
const onTicket = "ticket,"

// NewTicket implements store.Store.
func (s *Store) NewTicket(note string) string { return newToken(onTicket+s.locker, note) }

// issuerOf returns the Locker that has issued a ticket, by the first part of the ticket's token. For another token it is that part
// itself, and is is false.
func issuerOf(locker string) (issuer string, is bool) { return strings.CutPrefix(locker, onTicket) }

// handsOn makes c the command that hands a lock on to g's ticket. It concerns the lock's own key alone, also while a Cluster moves that.
func (s *Store) handsOn(c *command, g store.Give) {
	c.keys[0], c.next = redisKey{s.ns, g.Key, keyEnds[0]}, g.Ticket.Token
	c.script = handOnScript
	c.args = append(c.room[:0], nil, nil, 1, &c.keys[0], &c.token, &c.next,
		strconv.FormatInt(millis(g.Ticket.Lasts), 10), c.fenced(g.Ref), strconv.FormatInt(g.Ticket.Issuer, 10))
}

// resumes makes c the command that asks for a lock by r's ticket.
func (s *Store) resumes(c *command, r store.Request) {
	c.token, c.terms, c.next, c.fence = r.Token, terms(r.Ref), r.Ticket.Token, r.Ticket.Issuer
	s.onLock(c, r.Key, resumeScript, &c.token, &c.terms, &c.next, &c.fence)
}
