package model

import (
	"encoding/binary"
	"slices"
)

// This file takes a step. What a Locker does is in locker.go, what Redis does in redis.go, what goes wrong in fault.go.

// A machine takes steps. It remembers what scripts have done: of all states few differ in what a script can see.
type machine struct {
	*Size
	lua   *interpreter
	known map[string]effect
	key   []byte
}

// An effect is what a script did to the keys, what it sent, and what it answered.
type effect struct {
	db        db
	second    *db
	published []publication
	reply     any
}

// mostKnown bounds the memory.
const mostKnown = 300_000

func newMachine(z *Size) *machine {
	return &machine{Size: z, lua: newInterpreter(), known: make(map[string]effect)}
}

// run has the server carry out a script.
func (m *machine) run(srv *server, s *script, args []string) any {
	key := append(binary.AppendUvarint(m.key[:0], s.id), byte(len(args)))
	for _, arg := range args {
		key = append(append(key, arg...), 0)
	}
	key = binary.AppendVarint(key, srv.now)
	for i := range m.Lockers {
		key = append(key, bit(srv.listens(prefix+string(rune('A'+i)))))
	}
	m.key = srv.db.encode(key)
	names := keyNames[0][:]
	if srv.second != nil {
		m.key, names = srv.second.encode(m.key), keysOfAll
	}
	e, known := m.known[string(m.key)]
	if !known {
		e.reply = m.lua.run(srv, s, names, args)
		e.db, e.published = *srv.db, srv.published
		if srv.second != nil {
			second := *srv.second
			e.second = &second
		}
		if len(m.known) >= mostKnown {
			clear(m.known)
		}
		m.known[string(m.key)] = e
	}
	*srv.db, srv.published = e.db, e.published
	if srv.second != nil {
		*srv.second = *e.second
	}
	return e.reply
}

// take takes a step from s, and returns the state after it, normalised, and what is wrong with it.
func (m *machine) take(s *state, t step) (next *state, wrong string) {
	next = s.clone()
	switch t.op {
	case opPass:
		m.renewParts(next)
		next.real += second
		for i := range m.claims() {
			if c := &next.claims[i]; c.phase == holding && c.trusted <= next.real { // the timer of the lease
				m.lose(next, uint8(i))
			}
		}
	case opAsk:
		m.ask(next, t.a, false)
	case opAskLast:
		next.leaves++
		m.ask(next, t.a, true)
	case opLeave:
		next.leaves++
		m.leave(next, t.a)
	case opRenew:
		c := &next.claims[t.a]
		c.renewed = true
		next.send(command{what: renew, claim: t.a, fence: c.fence})
	case opLook:
		m.look(next, t.a)
	case opWork:
		wrong = m.beginWork(next, t.a)
	case opFail:
		m.fail(next, t.a)
	case opResolve:
		next.resolves++
		next.net = append(next.net, command{what: resolve, claim: t.a, fence: next.locks[0].db.work(), lost: true})
	case opDoubt:
		m.doubt(next, t.a)
	case opClear:
		m.clear(next, t.a)
	case opRelease:
		if m.Notes {
			next.work.done |= 1 << t.a
		}
		wrong = m.release(next, t.a)
	case opCarryOut:
		wrong = m.carryOut(next, int(t.a))
	case opReply:
		c := next.net[t.a]
		next.net = slices.Delete(next.net, int(t.a), int(t.a)+1)
		wrong = m.hearReply(next, c)
	case opVanish:
		m.vanish(next, int(t.a))
	case opHear:
		l := &next.lockers[t.a]
		first := l.inbox[0]
		l.inbox = slices.Clone(l.inbox[1:])
		wrong = m.hear(next, first)
	case opListen:
		next.lockers[t.a].deaf = false
	case opRefuse:
		wrong = m.refuse(next, int(t.a))
	case opOneKey:
		wrong = m.carryOutByOneKey(next, int(t.a))
	case opMoved:
		next.moving = false
	case opFault:
		next.faults++
		wrong = m.fault(next, Fault(t.a), int(t.b))
	}
	if m.Rests {
		m.promote(next)
		m.forgetTenures(next)
	}
	if wrong == "" {
		wrong = m.check(next)
	}
	if m.Notes {
		next.locks[0].db[keyAnswer].outlasts(next.real)
	}
	m.forgetOrder(next)
	m.forgetRobbed(next)
	next.normalise()
	return next, wrong
}
