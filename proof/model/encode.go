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

// encode appends the state, normalised, to b.
func (s *state) encode(b []byte) []byte {
	number := func(t Time) { b = binary.AppendVarint(b, t) }
	small := func(bits ...bool) {
		var n byte
		for i, one := range bits {
			n |= bit(one) << i
		}
		b = append(b, n)
	}
	number(s.back)
	number(s.real % unit)
	b = s.work.encode(append(b, s.faults, s.leaves, s.resolves))
	small(s.forgot, s.died)
	number(s.highest)
	number(s.highestAlone)
	number(s.ticket.number)
	number(s.stays)
	b = append(b, s.stayer, s.ticket.resumed, bit(s.ticket.handed), bit(s.ticket.doubted))
	for _, t := range s.made {
		number(t)
	}
	for i := range s.claims {
		c := &s.claims[i]
		b = append(b, byte(c.phase))
		if c.phase == gone {
			number(c.since)
		}
		if c.phase == idle || c.phase == gone {
			continue
		}
		small(c.renewed, c.doubt, c.released, c.spent, c.discards)
		small(c.behind, c.looked, c.served, c.unsure, c.began, c.lost, c.undone)
		for _, t := range [...]Time{c.arrived, c.came, c.asked, c.answered, c.fence, c.estimate, c.trusted, c.since, c.news.fence, c.news.since, c.news.lasts} {
			number(t)
		}
	}
	for i := range s.lockers {
		l := &s.lockers[i]
		small(l.dead, l.deaf)
		b = append(b, byte(len(l.inbox)))
		for _, m := range l.inbox {
			b = append(b, m.claim, bit(m.revoked))
			number(m.fence)
			number(m.at)
			number(m.first)
		}
	}
	b = append(b, byte(len(s.net)))
	for i := range s.net {
		c := &s.net[i]
		b = append(b, byte(c.what), c.claim, c.step, c.reply.next)
		b = append(b, c.reply.answer, c.reply.begun, bit(c.keeps), bit(c.undone), bit(c.reply.spent))
		small(c.certain, c.executed, c.lost, c.last, c.reply.yes, c.reply.alone, c.reply.same, c.reply.jumped)
		for _, t := range [...]Time{c.arrived, c.sent, c.came, c.fence, c.estimate, c.stay, c.reply.fence, c.reply.clock, c.reply.first} {
			number(t)
		}
	}
	return s.db.encode(b)
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
