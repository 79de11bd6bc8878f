package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file has what Redis does with a command, and how commands, replies and messages are written.

const (
	ms      = "3000" // ttl
	prefix  = "g:"
	listens = "v" + prefix

	fingerprint = "f"
	retained    = "90000000" // µs for which answers and intents are kept with Notes: longer than anything that is looked at
	retainedMs  = "90000"
)

// server returns the server at this moment, for commands about one lock.
func (m *machine) server(s *state, lock uint8) *server {
	for i := range s.locks {
		s.locks[i].db.expire(s.now())
	}
	return &server{db: &s.locks[lock].db, now: s.now(), listens: func(channel string) bool {
		l := &s.lockers[channel[len(prefix)]-'A']
		return !l.dead && !l.deaf
	}}
}

// carryOut has the server carry out a command, or one step of it, and returns what is wrong with that.
func (m *machine) carryOut(s *state, at int) string {
	s.real++
	o := &s.net[at]
	srv := m.server(s, m.lock(o.claim))
	if o.what == all {
		srv.second = &s.locks[1].db
	}
	was := s.locks
	before := &was[m.lock(o.claim)].db
	front := m.first(s, m.lock(o.claim))
	passed := m.passed(s, o)
	var fronts [mostLocks]string
	fronts[m.lock(o.claim)] = front
	if o.what == all {
		fronts[1] = m.first(s, 1)
	}
	if o.what == set {
		m.carryOutSet(s, srv, o, front, passed)
	} else {
		name, args := m.call(o, srv.now)
		got := m.run(srv, m.scripts(o.claim)[name], args)
		if text, failed := got.(errReply); failed {
			return string(text)
		}
		o.executed = true
		o.certain = m.isCertain(s, o)
		m.read(o, got, srv.now)
		if o.stay > 0 && o.reply.yes {
			s.stays, s.stayer = max(s.stays, o.sent+o.stay), o.claim
		}
		if wrong := m.answers(s, o, before); wrong != "" {
			return wrong
		}
		if m.Async {
			if wrong := m.leftBehind(s, o); wrong != "" {
				return wrong
			}
		}
	}
	if wrong := m.robsTicket(s, o, before); wrong != "" {
		return wrong
	}
	for _, p := range srv.published {
		m.deliver(s, p)
	}
	if m.Rests {
		m.noteAhead(s, before, srv.db)
		if wrong := m.passesDue(s, before, srv.db); wrong != "" {
			return wrong
		}
	}
	if wrong := m.outOfArrival(s, o, before, passed); wrong != "" {
		return wrong
	}
	for lock, front := range fronts {
		if wrong := m.outOfTurn(s, o, &was[lock].db, &s.locks[lock].db, front); wrong != "" {
			return wrong
		}
	}
	if o.lost && o.executed {
		s.net = slices.Delete(s.net, at, at+1)
	}
	return ""
}

// isCertain reports whether nothing of a claim can arrive behind what gives back, or gives up, and was carried out.
func (m *machine) isCertain(s *state, o *command) bool {
	return (o.what >= give || o.what == resume || o.last) && !m.late(s, o.claim)
}

// outOfTurn returns what is wrong with what a command has done to a lock for which somebody waits: front, the first of them.
func (m *machine) outOfTurn(s *state, o *command, before, after *db, front string) string {
	if front == "" {
		return ""
	}
	had, has := holders(before), holders(after)
	if o.what >= give && had != nil && has == nil {
		return fmt.Sprintf("%s waits, and was not handed the lock", front)
	}
	if o.what == set || o.what == handOn || o.what == resume {
		return ""
	}
	for _, token := range has {
		if !slices.Contains(had, token) && !slices.Contains(has, front) && (o.what == all || m.before(s, before, front, token)) {
			return fmt.Sprintf("%s has overtaken %s", token, front)
		}
	}
	return ""
}

// outOfArrival returns what is wrong where a command has given its claim the lock, which had no place in the queue, and passed by another one. A lock that
// the claim had taken by SET, in front of one who waits, is not its yet.
func (m *machine) outOfArrival(s *state, o *command, before *db, passed string) string {
	token, has := m.token(o.takes()), holders(&s.locks[m.lock(o.claim)].db)
	had := slices.Contains(holders(before), token) && !strings.HasPrefix(before[keyLock].text, token+":~")
	if o.what != acquire && o.what != offer || passed == "" || had || !slices.Contains(has, token) || slices.Contains(has, passed) {
		return ""
	}
	return fmt.Sprintf("%s has overtaken %s, which stood in the queue when it came", token, passed)
}

// answers returns what is wrong with the answer that a command has found, or kept.
func (m *machine) answers(s *state, o *command, before *db) string {
	if m.Notes {
		return m.notes(s, o, before)
	}
	if len(m.Roles) > 0 {
		if wrong := m.tickets(s, o, before); wrong != "" {
			return wrong
		}
	}
	token := m.token(o.claim)
	if maker := o.reply.answer; maker > 0 && s.made[maker-1] < o.arrived {
		return fmt.Sprintf("%s has the answer of %s, which was made before it came", token, m.token(maker-1))
	}
	if o.keeps && s.locks[0].db[keyAnswer].text != before[keyAnswer].text {
		s.made[o.claim] = s.real
		if !slices.Contains(holders(before), token) {
			return token + " has kept an answer without the lock"
		}
	}
	return ""
}

// leftBehind returns what is wrong with a command that was carried out where releases are not awaited: each ends the matter
// by itself, and no call meets one of its own process that it came behind.
func (m *machine) leftBehind(s *state, o *command) string {
	has := holders(&s.locks[m.lock(o.claim)].db)
	if (o.what == give || o.what == release && o.stay == 0) && slices.Contains(has, m.token(o.claim)) {
		return fmt.Sprintf("%s has gone on, and its release has left it the lock: its process may end now", m.token(o.claim))
	}
	if o.what == acquire && s.claims[o.claim].behind && !o.reply.yes && !m.coolsDown(s) {
		for _, token := range has {
			if n := m.claimBy(token); m.of(n) == m.of(o.claim) && s.claims[n].phase == giving {
				return fmt.Sprintf("%s came behind the release of %s, and meets it", m.token(o.claim), token)
			}
		}
	}
	return ""
}

// carryOutSet carries out the next of the four commands of set.go.
func (m *machine) carryOutSet(s *state, srv *server, o *command, front, passed string) {
	value := m.token(o.claim) + ":~" + strconv.FormatInt(o.estimate, 10)
	switch o.step {
	case 0:
		o.reply.yes = srv.call([]string{"SET", keyNames[0][keyLock], value, "NX", "PX", ms}) == "OK"
		o.reply.jumped = passed != "" || m.before(s, srv.db, front, m.token(o.claim))
	case 1:
		o.reply.alone = srv.call([]string{"EXISTS", keyNames[0][keyQueue], keyNames[0][keyLockers], keyNames[0][keyFence]}) == int64(0)
	case 2:
		o.reply.clock = srv.now
	case 3:
		o.reply.same = srv.call([]string{"GET", keyNames[0][keyLock]}) == value
		o.reply.jumped = o.reply.jumped && (passed != "" || m.before(s, srv.db, front, m.token(o.claim))) // not one that has left since
		o.executed = true
	}
	o.step++
}

// call returns the script and the arguments of a command.
func (m *machine) call(o *command, now Time) (name string, args []string) {
	token, fence := m.token(o.claim), ""
	if o.fence != 0 {
		fence = strconv.FormatInt(o.fence, 10)
	}
	switch o.what {
	case all:
		args = []string{m.terms(o.claim)}
		for _, p := range m.parts(o.claim) {
			args = append(args, m.token(p))
		}
		return "all", args
	case acquire:
		join := "wait"
		if o.last {
			join = "last"
		}
		args = []string{token, m.terms(o.claim), join, listens, strconv.FormatInt(o.sent-o.came, 10), "0"}
		if o.brings {
			return "acquire", append(args, m.token(o.next)+":"+m.terms(o.next))
		}
		if m.Do {
			return "recall", append(args, "", fingerprint, m.since(o, now))
		}
		return "acquire", args
	case resume:
		return "resume", []string{token, m.terms(o.claim), ticketToken, fence}
	case offer:
		waited := strconv.FormatInt(o.sent-o.came, 10)
		return "releaseto", []string{token, m.token(o.next), m.terms(o.next), listens, waited, "0", fence}
	case handOn:
		return "handon", []string{token, ticketToken, ms, fence, strconv.FormatInt(cmp.Or(o.estimate, o.fence), 10)}
	case discard:
		return "release", []string{ticketToken, prefix, "", ms}
	case renew:
		return "renew", []string{token, m.terms(o.claim), fence}
	case give:
		return "give", []string{token + ":~" + strconv.FormatInt(o.estimate, 10), fence}
	case look, find:
		return "recall", []string{token, m.terms(o.claim), "look", listens, "0", "0", fence, fingerprint, m.since(o, now)}
	case note:
		return "recall", []string{token, m.terms(o.claim), "begin", listens, "0", "0", fence, fingerprint, "0", fence, retainedMs, retained + " " + token}
	case resolve:
		return "resolve", []string{retained, retainedMs, "", fence}
	case release:
		switch {
		case o.undone:
			return "keep", []string{token, prefix, fence, "", "", "", "", "0", "10000", "", fence}
		case o.keeps && m.Notes:
			return "keep", []string{token, prefix, fence, "", "", "", "", retained, retainedMs, fingerprint + " " + token, fence}
		case o.keeps:
			return "keep", []string{token, prefix, fence, "", "", "", "", "0", "10000", fingerprint + " " + token, ""}
		}
		if o.stay > 0 {
			return "release", []string{token, prefix, fence, "", strconv.FormatInt(o.stay/1000, 10)}
		}
		if o.estimate != 0 {
			return "release", []string{token, prefix, fence, "", "", token + ":~" + strconv.FormatInt(o.estimate, 10)}
		}
		return "release", []string{token, prefix, fence}
	default: // remove; set is no script
		return "release", []string{token, prefix, fence, m.terms(o.claim)}
	}
}

// since is how long the claim has waited by its own clock, when the command was sent: the server takes it for one that came as much
// later as the command was under way.
func (m *machine) since(o *command, now Time) string {
	arrived := o.arrived + (now/unit-o.sent/unit)*unit
	return strconv.FormatInt(max(now-arrived, 0), 10)
}

// read reads a script's reply.
func (m *machine) read(o *command, got any, now Time) {
	r := &o.reply
	r.clock = now
	list, _ := got.([]any)
	if len(list) > 1 && list[0] == int64(2) && (o.what == acquire || o.what >= look && o.what <= find) {
		record := list[1].(string)
		switch by, is := m.recordOf(record); is {
		case aNote:
			r.begun = by + 1
		case anAnswer:
			r.answer = by + 1
		case noRecord:
		}
		return
	}
	switch o.what {
	case look, find:
	case note:
		r.yes = list[0] == int64(1)
	case acquire:
		if text, granted := got.(string); granted {
			r.yes, r.fence = true, number(text)
		} else if list[0] == int64(1) {
			r.yes, r.fence = true, number(list[1].(string))
			if m.Rests && len(list) > 4 {
				r.waits = number(list[4].(string))
			}
		} else if o.brings {
			r.placed = list[4] == int64(1)
		}
	case offer:
		m.readOffer(r, got)
	case all:
		if r.yes = list[0] == int64(1); r.yes {
			r.fence, r.second = number(list[2].(string)), number(list[3].(string))
		}
	case resume:
		r.yes, r.spent = list[0] == int64(1), list[0] == int64(3)
		if r.yes {
			r.fence = number(list[1].(string))
		}
	case renew, give, resolve, handOn:
		r.yes = got == int64(1)
	case release, remove, discard:
		if len(list) > 0 {
			got = list[0]
			if len(list) > 1 { // it went to one of the same Locker
				m.readNext(r, list[1])
			}
		}
		r.yes = got != int64(0)
	case set: // is read step by step
	}
}

// readOffer reads the reply to a release that offers the lock.
func (m *machine) readOffer(r *reply, got any) {
	if fence, granted := got.(string); granted {
		r.yes, r.given = true, number(fence)
		return
	}
	list := got.([]any)
	r.yes, r.waits = list[0] != int64(0), number(list[3].(string))
	if fence := list[1].(string); fence != "" {
		r.given = number(fence)
	}
	if len(list) > 4 {
		m.readNext(r, list[4])
	}
}

// readNext reads to whom of the same Locker a release has handed the lock: the text of the message that another Locker would have had.
func (m *machine) readNext(r *reply, text any) {
	msg := m.parse(text.(string))
	r.next, r.fence, r.first, r.waits = msg.claim+1, msg.fence, msg.first, msg.waits
}

// deliver puts what a script has published into the inbox of the Locker that it is for. A message that does not say when it was sent is noted with
// that, too: otherwise no second could pass before it is heard, as if it were three seconds old.
func (m *machine) deliver(s *state, p publication) {
	if p.channel[len(prefix):] == ticketToken[:1] || !m.Rests && strings.HasPrefix(p.text, "contended ") {
		return
	}
	l := &s.lockers[p.channel[len(prefix)]-'A']
	if l.dead || l.deaf {
		return
	}
	msg := m.parse(p.text)
	if msg.at == 0 {
		msg.at = s.now()
	}
	l.inbox = append(slices.Clone(l.inbox), msg)
}

// parse reads a message.
func (m *machine) parse(text string) message {
	words := strings.Fields(text)
	if words[0] == "revoked" {
		return message{claim: m.claimBy(words[1]), revoked: true}
	}
	if words[0] == "contended" {
		return message{claim: m.claimBy(words[2]), contended: true, waits: number(words[1])}
	}
	msg := message{claim: m.claimBy(words[0]), fence: number(words[1]), at: number(words[2]), first: 1000 * number(words[3])}
	if m.Rests {
		msg.waits = number(words[4])
	}
	return msg
}
