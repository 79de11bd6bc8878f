package model

import (
	"encoding/binary"
	"math"
)

// This file writes a state, normalised, as bytes: two states are the same if these are.

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func bits(all ...bool) (n byte) {
	for i, one := range all {
		n |= bit(one) << i
	}
	return n
}

// encode appends the state, normalised, to b.
func (s *state) encode(b []byte) []byte {
	number := func(t Time) { b = binary.AppendVarint(b, t) }
	number(s.back)
	number(s.real % unit)
	b = s.work.encode(append(b, s.faults, s.leaves, s.resolves))
	b = append(b, bits(s.died, s.moving, s.moved))
	number(s.ticket.number)
	number(s.stays)
	b = append(b, s.stayer, s.ticket.resumed, bit(s.ticket.handed), bit(s.ticket.doubted))
	for _, t := range s.made {
		number(t)
	}
	for i := range s.claims {
		b = s.claims[i].encode(b)
	}
	for i := range s.lockers {
		b = s.lockers[i].encode(b)
	}
	b = append(b, byte(len(s.net)))
	for i := range s.net {
		b = s.net[i].encode(b)
	}
	for i := range s.locks {
		l := &s.locks[i]
		b = append(b, bit(l.forgot), l.robbed)
		number(l.highest)
		number(l.highestAlone)
		b = l.db.encode(b)
	}
	return b
}

// encode appends the claim to b.
func (c *claim) encode(b []byte) []byte {
	b = append(b, byte(c.phase))
	switch c.phase {
	case gone:
		return binary.AppendVarint(b, c.since)
	case idle:
		return append(b, bit(c.doubt))
	case resting, asking, waiting, holding, giving, leaving:
	}
	b = append(b, c.ahead, c.local.known, bits(c.renewed, c.doubt, c.released, c.spent, c.discards, c.local.missed, c.local.due), bits(c.behind, c.looked, c.served, c.unsure, c.began, c.lost, c.undone))
	for _, t := range [...]Time{c.arrived, c.came, c.asked, c.answered, c.fence, c.estimate, c.trusted, c.since, c.local.entered, c.local.granted, c.local.others, c.news.fence, c.news.since, c.news.lasts} {
		b = binary.AppendVarint(b, t)
	}
	return b
}

// encode appends the Locker to b.
func (l *locker) encode(b []byte) []byte {
	b = append(b, bits(l.dead, l.deaf), byte(len(l.inbox)))
	for _, m := range l.inbox {
		b = append(b, m.claim, bits(m.revoked, m.contended))
		for _, t := range [...]Time{m.fence, m.at, m.first, m.waits} {
			b = binary.AppendVarint(b, t)
		}
	}
	return b
}

// encode appends the command to b.
func (c *command) encode(b []byte) []byte {
	b = append(b, byte(c.what), c.claim, c.step, c.next, c.reply.next, c.ahead)
	b = append(b, c.reply.answer, c.reply.begun, bits(c.keeps, c.undone, c.reply.spent, c.followed, c.follows, c.brings, c.reply.placed))
	b = append(b, bits(c.certain, c.executed, c.lost, c.last, c.reply.yes, c.reply.alone, c.reply.same, c.reply.jumped))
	for _, t := range [...]Time{c.arrived, c.sent, c.came, c.fence, c.estimate, c.stay, c.beside, c.reply.fence, c.reply.second, c.reply.clock, c.reply.first, c.reply.waits, c.reply.given} {
		b = binary.AppendVarint(b, t)
	}
	return b
}

// encode appends the keys to b.
func (d *db) encode(b []byte) []byte {
	for i := range d {
		e := &d[i]
		b = append(b, byte(e.kind))
		if e.kind == absent {
			continue
		}
		b = binary.AppendVarint(b, e.ends)
		b = append(append(b, e.text...), 0, byte(len(e.members)))
		for _, m := range e.members {
			b = append(append(b, m.name...), 0)
			b = append(append(b, m.value...), 0)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(m.score))
		}
	}
	return b
}
