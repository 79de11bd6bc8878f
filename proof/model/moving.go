package model

import (
	"slices"
	"strconv"
	"strings"
)

// This file has a slot of a Cluster that moves to another master. While it moves a script that concerns several keys of a mutex is
// refused wherever some of them are at the other master, and is put in the form that concerns the lock's own key (onekey.go).
// Any command may meet that, since nobody knows how far the keys have come, and any may be carried out as always. A command that
// is only sent to the other master is no more than one that arrives later.

// stepsWhileMoving appends what may become of a command that is under way, because a slot moves.
func (z *Size) stepsWhileMoving(s *state, n uint8, all []step) []step {
	c := &s.net[n]
	switch {
	case c.executed:
	case c.byOneKey():
		all = append(all, step{opOneKey, n, 0})
	case !s.moving:
	case c.what == set && !c.lost:
		all = append(all, step{opRefuse, n, 0})
	case c.what == acquire, c.what == renew, c.what == release, c.what == remove:
		all = append(all, step{opOneKey, n, 0})
	}
	return all
}

// leaves is the step of that form that takes a place out of the queue.
const leaves = 2

// byOneKey reports whether a part of the form that concerns one key was carried out.
func (c *command) byOneKey() bool { return c.what != set && c.step > 0 }

// refuse has the server refuse the rest of the four commands of set.go: what was carried out is known at the other master, too.
func (m *machine) refuse(s *state, at int) (wrong string) {
	o := s.net[at]
	s.net = slices.Delete(s.net, at, at+1)
	if m.Hole == HalfSet && o.step > 0 && o.reply.yes {
		return m.hold(s, o.claim, o.sent, ttl, o.estimate, o.estimate)
	}
	m.askByScript(s, o)
	return ""
}

// carryOutByOneKey carries out the next step of a command in that form: to acquire, GET of the fence beside the lock comes before the
// script. Behind the script comes ZREM of its place in the queue, of a removal, and of a claim that asked before and does not keep it.
func (m *machine) carryOutByOneKey(s *state, at int) (wrong string) {
	s.real++
	o := &s.net[at]
	srv := m.server(s, m.lock(o.claim))
	switch {
	case o.what == acquire && o.step == 0:
		if fence := srv.db[keyFence]; fence.kind != absent {
			o.beside = number(fence.text)
		}
		o.step = 1
		return ""
	case o.step == leaves:
		srv.call([]string{"ZREM", keyNames[0][keyQueue], m.token(o.claim) + ":" + m.terms(o.claim)})
		m.wasCarriedOut(s, at)
		return ""
	}
	got := m.run(srv, m.scripts(o.claim)["onekey"], m.oneKeyArgs(o))
	if text, failed := got.(errReply); failed {
		if !strings.HasPrefix(string(text), "TRYAGAIN ") {
			return string(text)
		}
		o.step = 0 // the clock is behind the last fence: the command is sent again
		return ""
	}
	m.read(o, got, srv.now)
	if o.stay > 0 && o.reply.yes {
		s.stays, s.stayer = max(s.stays, o.sent+o.stay), o.claim
	}
	if m.Async {
		if wrong := m.leftBehind(s, o); wrong != "" {
			return wrong
		}
	}
	c := &s.claims[o.claim]
	if o.what == remove || o.what == acquire && (o.reply.yes || o.last) && (c.asked != 0 || c.doubt) && m.Hole != KeepsPlace {
		o.step = leaves
		return ""
	}
	m.wasCarriedOut(s, at)
	return ""
}

// oneKeyArgs are the arguments of onekey.lua.
func (m *machine) oneKeyArgs(o *command) []string {
	beside, do, lasts := o.fence, "release", o.stay
	switch o.what {
	case acquire:
		beside, do, lasts = o.beside, "acquire", ttl
	case renew:
		do, lasts = "renew", ttl
	default: // release and remove
	}
	text := ""
	if beside > 0 {
		text = strconv.FormatInt(beside, 10)
	}
	return []string{m.token(o.claim), do, strconv.FormatInt(lasts/1000, 10), text}
}

// wasCarriedOut notes that the reply of a command is under way, if somebody waits for it.
func (m *machine) wasCarriedOut(s *state, at int) {
	o := &s.net[at]
	o.executed = true
	o.certain = m.isCertain(s, o)
	if o.lost {
		s.net = slices.Delete(s.net, at, at+1)
	}
}
