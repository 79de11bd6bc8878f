package model

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file has the steps: what may happen in a state.

// A Size says what is looked at: how much of everything, and what may go wrong.
type Size struct {
	Name    string
	Lockers int       // processes
	Claims  int       // calls of Acquire in each, at any time, also at the same
	Kinds   []Kind    // of the claims, in turn; none: all are exclusive
	Waits   bool      // who does not get the lock waits for it
	Renews  bool      // a holder may renew, once
	Leaves  int       // how many callers may leave
	Faults  int       // at most, one after the other
	May     []Fault   // which
	Scripts []Scripts // of each Locker, in turn: two versions side by side
	Hole    Hole      // what is done wrong on purpose
}

// A Kind is what a claim wants, as scripts are told it.
type Kind string

// The kinds that are looked at.
const (
	Exclusive Kind = ""
	Shared    Kind = "s"
	Permit    Kind = "p2" // one of two
)

// A Fault is what may go wrong.
type Fault uint8

const (
	LoseReply   Fault = iota // a command's caller has no reply; the command may be carried out later, or never
	LoseMessage              // a message to a Locker is lost
	Crash                    // a process ends
	Deafen                   // a subscription breaks, and comes back at any time
	Delete                   // another program deletes the lock
	Forget                   // Redis forgets everything
	Force                    // an operator releases the lock by force
	SetBack                  // the server's clock is set back by a second
)

var faultNames = [...]string{"no reply", "message lost", "crash", "subscription breaks", "foreign DEL", "Redis forgets", "release by force", "clock set back by 1 s"}

// String names the fault.
func (f Fault) String() string { return faultNames[f] }

// A Hole is a mistake of a Locker's, made on purpose to see that it is found.
type Hole uint8

const (
	NoHole       Hole = iota
	LocalFence        // the fence is taken from the client's estimate of the clock
	FromReply         // validity counts from when the reply came
	NoCleanUp         // a call that gives up leaves what it may have
	EarlyCleanUp      // what was not answered is removed once, whatever may still be under way
	NoLook            // a lock that SET has taken is held without a look at the queue
	NoSecondLook      // the same without the GET at the end
	NoAsking          // a waiter only listens, and never asks again
)

// An op is a kind of step.
type op uint8

const (
	opPass     op = iota // half of the shortest duration passes
	opAsk                // a claim begins, or asks again
	opAskLast            // a waiting claim asks for the last time
	opLeave              // a claim's caller leaves
	opRenew              // a holder renews
	opRelease            // a holder gives the lock back
	opCarryOut           // the server carries a command out, or its next step
	opReply              // a reply arrives
	opVanish             // a command that nobody waits for never arrives
	opHear               // a Locker's first message arrives
	opListen             // a Locker's subscription is there again
	opFault              // a fault; its kind in a, its place in b
)

// A step is one that may be taken.
type step struct {
	op   op
	a, b uint8
}

// steps appends the steps that may be taken in s.
func (z *Size) steps(s *state, all []step) []step {
	for i := range z.claims() {
		if n := uint8(i); !s.lockers[z.of(n)].dead {
			all = z.stepsOf(s, n, all)
		}
	}
	for i := range s.net {
		switch c, n := &s.net[i], uint8(i); {
		case c.executed:
			all = append(all, step{opReply, n, 0})
		case c.lost:
			all = append(all, step{opCarryOut, n, 0}, step{opVanish, n, 0})
		default:
			all = append(all, step{opCarryOut, n, 0})
		}
	}
	for i := range z.Lockers {
		switch l, n := &s.lockers[i], uint8(i); {
		case l.dead:
		case l.deaf:
			all = append(all, step{opListen, n, 0})
		case len(l.inbox) > 0:
			all = append(all, step{opHear, n, 0})
		}
	}
	if z.isBusy(s) && z.mayPass(s) {
		all = append(all, step{opPass, 0, 0})
	}
	return all
}

// isBusy reports whether time can change anything.
func (z *Size) isBusy(s *state) bool {
	if len(s.net) > 0 || s.db[keyLock].kind != absent {
		return true
	}
	for i := range z.claims() {
		if c := &s.claims[i]; c.phase != idle && c.phase != gone && !s.lockers[z.of(uint8(i))].dead {
			return true
		}
	}
	return false
}

// stepsOf appends the steps that a claim may take by itself.
func (z *Size) stepsOf(s *state, n uint8, all []step) []step {
	c := &s.claims[n]
	mayLeave := int(s.leaves) < z.Leaves
	switch c.phase {
	case idle:
		all = append(all, step{opAsk, n, 0})
	case asking:
		if mayLeave {
			all = append(all, step{opLeave, n, 0})
		}
	case waiting:
		if s.clock()-c.asked >= second && z.Hole != NoAsking {
			all = append(all, step{opAsk, n, 0})
		}
		if mayLeave {
			all = append(all, step{opAskLast, n, 0}, step{opLeave, n, 0})
		}
	case holding:
		if slices.ContainsFunc(s.net, func(o command) bool { return o.claim == n && o.what == renew && !o.lost }) {
			break // the release awaits it
		}
		all = append(all, step{opRelease, n, 0})
		if z.Renews && !c.renewed {
			all = append(all, step{opRenew, n, 0})
		}
	case giving, leaving, gone:
	}
	return all
}

// mayPass reports whether time may pass now: a reply that has not come within a second counts as none (LoseReply), what
// was sent arrives within two seconds or never, a message within three, and who waits asks again every two.
func (z *Size) mayPass(s *state) bool {
	for i := range s.net {
		c, most := &s.net[i], second
		if c.lost {
			most = 2 * second
		}
		if s.clock()-c.sent >= most {
			return false
		}
	}
	for i := range z.claims() {
		c := &s.claims[i]
		if c.phase == waiting && z.Hole != NoAsking && !s.lockers[z.of(uint8(i))].dead && s.clock()-c.asked >= 2*second {
			return false
		}
	}
	for i := range z.Lockers {
		if inbox := s.lockers[i].inbox; len(inbox) > 0 && s.now()-inbox[0].at >= 3*second {
			return false
		}
	}
	return true
}

// faults appends the faults that may happen in s.
func (z *Size) faults(s *state, all []step) []step {
	if int(s.faults) >= z.Faults {
		return all
	}
	for _, f := range z.May {
		switch f {
		case LoseReply:
			for i := range s.net {
				if !s.net[i].lost {
					all = append(all, step{opFault, uint8(f), uint8(i)})
				}
			}
		case Delete, Forget, Force:
			if s.db[keyLock].kind != absent {
				all = append(all, step{opFault, uint8(f), 0})
			}
		case SetBack:
			all = append(all, step{opFault, uint8(f), 0})
		default:
			for i := range z.Lockers {
				l := &s.lockers[i]
				if !l.dead && (f != LoseMessage || len(l.inbox) > 0) && (f != Deafen || !l.deaf) {
					all = append(all, step{opFault, uint8(f), uint8(i)})
				}
			}
		}
	}
	return all
}

// claims is how many claims there are.
func (z *Size) claims() int { return z.Lockers * z.Claims }

// of returns the Locker of a claim.
func (z *Size) of(claim uint8) uint8 { return claim / uint8(z.Claims) }

// scripts returns those of a claim's Locker.
func (z *Size) scripts(claim uint8) Scripts { return z.Scripts[int(z.of(claim))%len(z.Scripts)] }

// token returns a claim's token.
func (z *Size) token(claim uint8) string {
	return string([]byte{'A' + z.of(claim), '.', '0' + claim%uint8(z.Claims)})
}

// claimBy returns the claim that has a token.
func (z *Size) claimBy(token string) uint8 {
	return (token[0]-'A')*uint8(z.Claims) + token[2] - '0'
}

// kind returns what a claim wants.
func (z *Size) kind(claim uint8) Kind {
	if len(z.Kinds) == 0 {
		return Exclusive
	}
	return z.Kinds[int(claim)%len(z.Kinds)]
}

// terms returns what a claim asks for.
func (z *Size) terms(claim uint8) string {
	if k := z.kind(claim); k != Exclusive {
		return ms + ":" + string(k) + ":"
	}
	return ms
}

const (
	ms      = "3000" // ttl
	prefix  = "g:"
	listens = "v" + prefix
)

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
	key := append(append(m.key[:0], s.id), byte(len(args)))
	for _, arg := range args {
		key = append(append(key, arg...), 0)
	}
	key = binary.AppendVarint(key, srv.now)
	for i := range m.Lockers {
		key = append(key, bit(srv.listens(prefix+string(rune('A'+i)))))
	}
	m.key = srv.db.encode(key)
	e, known := m.known[string(m.key)]
	if !known {
		e.reply = m.lua.run(srv, s, args)
		e.db, e.published = *srv.db, srv.published
		if len(m.known) >= mostKnown {
			clear(m.known)
		}
		m.known[string(m.key)] = e
	}
	*srv.db, srv.published = e.db, e.published
	return e.reply
}

// take takes a step from s, and returns the state after it, normalised, and what is wrong with it.
func (m *machine) take(s *state, t step) (next *state, wrong string) {
	next = s.clone()
	switch t.op {
	case opPass:
		next.real += second
		for i := range m.claims() {
			if c := &next.claims[i]; c.phase == holding && c.trusted <= next.real { // the timer of the lease
				m.abandon(next, uint8(i))
			}
		}
	case opAsk:
		m.ask(next, t.a, false)
	case opAskLast:
		next.leaves++
		m.ask(next, t.a, true)
	case opLeave:
		next.leaves++
		for i := range next.net {
			if c := &next.net[i]; c.claim == t.a {
				c.lost = true
			}
		}
		next.net = slices.DeleteFunc(next.net, func(c command) bool { return c.claim == t.a && c.lost && c.executed })
		m.abandon(next, t.a)
	case opRenew:
		c := &next.claims[t.a]
		c.renewed = true
		next.send(command{what: renew, claim: t.a, fence: c.fence})
	case opRelease:
		m.giveBack(next, t.a)
	case opCarryOut:
		wrong = m.carryOut(next, int(t.a))
	case opReply:
		c := next.net[t.a]
		next.net = slices.Delete(next.net, int(t.a), int(t.a)+1)
		wrong = m.hearReply(next, c)
	case opVanish:
		next.net = slices.Delete(next.net, int(t.a), int(t.a)+1)
	case opHear:
		l := &next.lockers[t.a]
		first := l.inbox[0]
		l.inbox = slices.Clone(l.inbox[1:])
		wrong = m.hear(next, first)
	case opListen:
		next.lockers[t.a].deaf = false
	case opFault:
		next.faults++
		wrong = m.fault(next, Fault(t.a), int(t.b))
	}
	if wrong == "" {
		wrong = m.check(next)
	}
	next.normalise()
	return next, wrong
}

// ask sends a claim's question.
func (m *machine) ask(s *state, n uint8, last bool) {
	c := &s.claims[n]
	switch {
	case c.phase != idle:
		s.send(command{what: acquire, claim: n, last: last})
	case m.kind(n) == Exclusive:
		c.came = s.clock()
		s.send(command{what: set, claim: n, estimate: s.clock()})
	default:
		c.came = s.clock()
		s.send(command{what: acquire, claim: n, last: !m.Waits})
	}
	c.phase = asking
}

// abandon has the janitor remove what a claim may have.
func (m *machine) abandon(s *state, n uint8) {
	if m.Hole == NoCleanUp {
		s.claims[n] = claim{phase: gone}
		return
	}
	s.claims[n] = claim{phase: leaving, fence: s.claims[n].fence}
	s.send(command{what: remove, claim: n, fence: s.claims[n].fence})
}

// giveBack sends a release.
func (m *machine) giveBack(s *state, n uint8) {
	c := &s.claims[n]
	c.phase, c.trusted = giving, 0
	how := release
	if c.estimate != 0 && !c.released {
		how = give
	}
	s.send(command{what: how, claim: n, fence: c.fence, estimate: c.estimate})
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
	highest := s.highest
	if m.kind(n) != Exclusive { // those who share may learn of it in any order
		highest = s.highestAlone
	} else {
		s.highestAlone = fence
	}
	if fence <= highest && !s.forgot { // otherwise two may hold, and learn of it in any order
		wrong = fmt.Sprintf("the fence of %s is not higher than that of an earlier holder", m.token(n))
	}
	s.highest = max(s.highest, fence)
	c.phase, c.trusted, c.fence, c.estimate = holding, from+lasts, fence, estimate
	return wrong
}

// holdByNews has a claim hold the lock of which a message has told.
func (m *machine) holdByNews(s *state, n uint8) (wrong string) {
	had := s.claims[n].news
	return m.hold(s, n, had.since, had.lasts, had.fence, 0)
}

// hearReply takes in the reply of a command that somebody waits for.
func (m *machine) hearReply(s *state, o command) (wrong string) {
	c, r := &s.claims[o.claim], o.reply
	if s.lockers[m.of(o.claim)].dead {
		return ""
	}
	if r.next > 0 {
		wrong = m.hear(s, message{claim: r.next - 1, fence: r.fence, at: r.clock, first: r.first})
	}
	switch o.what {
	case set:
		if m.Hole == NoLook {
			r.alone = true
		}
		if m.Hole == NoLook || m.Hole == NoSecondLook {
			r.same = true
		}
		near := r.clock-o.estimate <= second && o.estimate-r.clock <= second
		switch {
		case r.yes && r.alone && r.same && near:
			if r.jumped {
				wrong = fmt.Sprintf("%s has overtaken one that waits", m.token(o.claim))
			}
			fence := r.clock
			if m.Hole == LocalFence {
				fence = o.estimate
			}
			return wrong + m.hold(s, o.claim, o.sent, ttl, fence, o.estimate)
		case m.Waits:
			s.send(command{what: acquire, claim: o.claim})
		default:
			s.send(command{what: acquire, claim: o.claim, last: true})
		}
	case acquire:
		c.asked, c.answered = o.sent, r.clock
		switch {
		case r.yes:
			return wrong + m.hold(s, o.claim, o.sent, ttl, r.fence, 0)
		case c.news != (news{}):
			return wrong + m.holdByNews(s, o.claim)
		case o.last:
			m.over(s, o)
		default:
			c.phase = waiting
		}
	case renew:
		if c.phase != holding {
			break
		}
		if r.yes {
			c.trusted = max(c.trusted, o.sent+ttl)
		} else {
			m.abandon(s, o.claim)
		}
	case give:
		if !r.yes {
			c.released = true // the script is next
			m.giveBack(s, o.claim)
			break
		}
		m.over(s, o)
	case release, remove:
		m.over(s, o)
	}
	return wrong
}

// over ends a claim after a command that gives back, unless another one could arrive behind it and take the lock.
func (m *machine) over(s *state, o command) {
	if (!o.certain || o.what != remove && s.claims[o.claim].doubt) && m.Hole != EarlyCleanUp {
		m.abandon(s, o.claim)
		return
	}
	s.claims[o.claim] = claim{phase: gone}
}

// hear takes in a message.
func (m *machine) hear(s *state, msg message) (wrong string) {
	c := &s.claims[msg.claim]
	switch {
	case s.lockers[m.of(msg.claim)].dead:
	case msg.revoked:
		if c.phase == holding {
			m.abandon(s, msg.claim)
		}
	case c.phase == waiting, c.phase == asking && c.asked != 0:
		// The grant was not before the last question was sent, and as long after its answer as the server's clock says.
		c.news = news{msg.fence, c.asked + msg.at - c.answered, msg.first}
		if c.phase == waiting { // otherwise the reply is awaited, which may say the same
			return m.holdByNews(s, msg.claim)
		}
	case c.phase == gone:
		m.abandon(s, msg.claim)
	}
	return ""
}

// fault has something go wrong.
func (m *machine) fault(s *state, f Fault, at int) (wrong string) {
	switch f {
	case LoseReply:
		return m.loseReply(s, at)
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
	case Delete:
		s.db[keyLock], s.forgot = entry{}, true
	case Forget:
		s.db, s.forgot = db{}, true
	case Force:
		s.real++
		s.forgot = true // the holder learns of it by a message, and another may have the lock by then
		srv := m.server(s)
		got := m.run(srv, m.scripts(0)["force"], []string{prefix})
		if text, failed := got.(errReply); failed {
			return string(text)
		}
		for _, p := range srv.published {
			m.deliver(s, p)
		}
	case SetBack:
		s.back += second
		if m.nobodyHolds(s) { // then nothing remembers the last fence, as docs and Lease.Fence say
			s.highest, s.highestAlone = 0, 0
		}
	}
	return ""
}

// nobodyHolds reports whether the lock is free, or was taken by SET by one who was told no fence yet.
func (m *machine) nobodyHolds(s *state) bool {
	token, fence, _ := strings.Cut(s.db[keyLock].text, ":")
	if token == "" {
		return true
	}
	if fence == "" || fence[0] != '~' && fence[0] != '!' {
		return false
	}
	p := s.claims[m.claimBy(token)].phase
	return p != holding && p != giving
}

// server returns the server at this moment.
func (m *machine) server(s *state) *server {
	s.db.expire(s.now())
	return &server{db: &s.db, now: s.now(), listens: func(channel string) bool {
		l := &s.lockers[channel[len(prefix)]-'A']
		return !l.dead && !l.deaf
	}}
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
	case set, acquire:
		c.doubt = true
		switch {
		case !m.Waits:
			m.abandon(s, o.claim)
		case c.news != (news{}):
			return m.holdByNews(s, o.claim)
		default:
			s.send(command{what: acquire, claim: o.claim, last: o.last})
		}
	case give, release:
		c.released = true
		m.giveBack(s, o.claim)
	case remove:
		s.send(command{what: remove, claim: o.claim, fence: o.fence})
	case renew: // the next one may come through
	}
	return ""
}

// carryOut has the server carry out a command, or one step of it.
func (m *machine) carryOut(s *state, at int) (wrong string) {
	s.real++
	o := &s.net[at]
	srv := m.server(s)
	before := s.db
	front := m.first(s)
	if o.what == set {
		m.carryOutSet(s, srv, o, front)
	} else {
		name, args := m.call(o)
		got := m.run(srv, m.scripts(o.claim)[name], args)
		if text, failed := got.(errReply); failed {
			return string(text)
		}
		o.executed = true
		o.certain = (o.what >= give || o.last) && !s.late(o.claim)
		m.read(o, got, srv.now)
	}
	for _, p := range srv.published {
		m.deliver(s, p)
	}
	if o.what != set && front != "" {
		had, has := holders(&before), holders(&s.db)
		for _, token := range has {
			if !slices.Contains(had, token) && !slices.Contains(has, front) && m.before(s, &before, front, token) {
				return fmt.Sprintf("%s has overtaken %s", token, front)
			}
		}
	}
	if o.what >= give && front != "" && holders(&before) != nil && holders(&s.db) == nil {
		return fmt.Sprintf("%s waits, and was not handed the lock", front)
	}
	if o.lost && o.executed {
		s.net = slices.Delete(s.net, at, at+1)
	}
	return wrong
}

// carryOutSet carries out the next of the four commands of set.go.
func (m *machine) carryOutSet(s *state, srv *server, o *command, front string) {
	value := m.token(o.claim) + ":~" + strconv.FormatInt(o.estimate, 10)
	switch o.step {
	case 0:
		o.reply.yes = srv.call([]string{"SET", keyNames[keyLock], value, "NX", "PX", ms}) == "OK"
		o.reply.jumped = m.before(s, &s.db, front, m.token(o.claim))
	case 1:
		o.reply.alone = srv.call([]string{"EXISTS", keyNames[keyQueue], keyNames[keyLockers], keyNames[keyFence]}) == int64(0)
	case 2:
		o.reply.clock = srv.now
	case 3:
		o.reply.same = srv.call([]string{"GET", keyNames[keyLock]}) == value
		o.executed = true
	}
	o.step++
}

// call returns the script and the arguments of a command.
func (m *machine) call(o *command) (name string, args []string) {
	token, fence := m.token(o.claim), ""
	if o.fence != 0 {
		fence = strconv.FormatInt(o.fence, 10)
	}
	switch o.what {
	case acquire:
		join := "wait"
		if o.last {
			join = "last"
		}
		return "acquire", []string{token, m.terms(o.claim), join, listens, strconv.FormatInt(o.sent-o.came, 10), "0"}
	case renew:
		return "renew", []string{token, m.terms(o.claim), fence}
	case give:
		return "give", []string{token + ":~" + strconv.FormatInt(o.estimate, 10), fence}
	case release:
		return "release", []string{token, prefix, fence}
	default: // remove; set is no script
		return "release", []string{token, prefix, fence, m.terms(o.claim)}
	}
}

// read reads a script's reply.
func (m *machine) read(o *command, got any, now Time) {
	r := &o.reply
	r.clock = now
	list, _ := got.([]any)
	switch o.what {
	case acquire:
		if text, granted := got.(string); granted {
			r.yes, r.fence = true, number(text)
		} else if list[0] == int64(1) {
			r.yes, r.fence = true, number(list[1].(string))
		}
	case renew, give:
		r.yes = got == int64(1)
	case release, remove:
		if len(list) > 0 {
			got = list[0]
			if len(list) > 1 { // it went to one of the same Locker
				msg := m.parse(list[1].(string))
				r.next, r.fence, r.first = msg.claim+1, msg.fence, msg.first
			}
		}
		r.yes = got != int64(0)
	case set: // is read step by step
	}
}

// deliver puts what a script has published into the inbox of the Locker that it is for.
func (m *machine) deliver(s *state, p publication) {
	l := &s.lockers[p.channel[len(prefix)]-'A']
	if l.dead || l.deaf || strings.HasPrefix(p.text, "contended ") {
		return
	}
	l.inbox = append(slices.Clone(l.inbox), m.parse(p.text))
}

// parse reads a message.
func (m *machine) parse(text string) message {
	words := strings.Fields(text)
	if words[0] == "revoked" {
		return message{claim: m.claimBy(words[1]), revoked: true}
	}
	return message{claim: m.claimBy(words[0]), fence: number(words[1]), at: number(words[2]), first: 1000 * number(words[3])}
}

// first returns the token of the first in the queue who waits, is there, and can be told, or "".
func (m *machine) first(s *state) string {
	for _, waiter := range s.db[keyQueue].members {
		token, _, _ := strings.Cut(waiter.name, ":")
		n := m.claimBy(token)
		l, alive := &s.lockers[m.of(n)], &s.db[keyLockers]
		at := alive.find(token[:1])
		if l.dead || l.deaf || at < 0 || s.claims[n].phase != waiting && s.claims[n].phase != asking {
			continue
		}
		till, _, _ := strings.Cut(alive.members[at].value, "v")
		if number(till) > s.now() {
			return token
		}
	}
	return ""
}

// before reports whether the one that waits comes before the one that has the lock now: by their places in the queue as it was, or
// where the latter had none, because it came before.
func (m *machine) before(s *state, was *db, waits, has string) bool {
	if waits == "" || waits == has {
		return false
	}
	place := func(token string) (ticket float64, ok bool) {
		for _, waiter := range was[keyQueue].members {
			if waiter.name[:len(token)] == token {
				return waiter.score, true
			}
		}
		return 0, false
	}
	if its, ok := place(has); ok {
		front, _ := place(waits)
		return front < its
	}
	return s.claims[m.claimBy(waits)].came < s.claims[m.claimBy(has)].came
}

// holders returns the tokens that have the lock.
func holders(d *db) (all []string) {
	value := d[keyLock].text
	switch {
	case value == "":
	case value[0] != '*':
		token, _, _ := strings.Cut(value, ":")
		all = append(all, token)
	default:
		for _, m := range d[keyHolders].members {
			if m.name[0] != '=' {
				all = append(all, m.name)
			}
		}
	}
	return all
}

// check returns what is wrong with a state.
func (m *machine) check(s *state) string {
	alone, sharing, permits := 0, 0, 0
	has := holders(&s.db)
	for i := range m.claims() {
		c := &s.claims[i]
		if c.phase == holding && s.real < c.trusted && !s.lockers[m.of(uint8(i))].dead {
			if token := m.token(uint8(i)); !s.forgot && !slices.Contains(has, token) {
				return fmt.Sprintf("%s relies on the lock, and Redis has not kept it for that long", token)
			}
			switch m.kind(uint8(i)) {
			case Exclusive:
				alone++
			case Shared:
				sharing++
			case Permit:
				permits++
			}
		}
	}
	if !s.forgot && (alone > 1 || permits > 2 || min(alone, 1)+min(sharing, 1)+min(permits, 1) > 1) {
		return "two rely on the lock at the same time"
	}
	for i, e := range s.db {
		if e.kind != absent && e.ends == 0 {
			return keyNames[i] + " has no TTL"
		}
	}
	if s.died || len(s.net) > 0 || s.claims != m.ended() {
		return ""
	}
	for i := range m.Lockers {
		if len(s.lockers[i].inbox) > 0 {
			return ""
		}
	}
	for i, e := range s.db {
		if e.kind != absent && m.isLeft(s, key(i)) {
			return fmt.Sprintf("all have gone, and %s is left: %s", keyNames[i], e.show())
		}
	}
	return ""
}

// isLeft reports whether a key is one that is to go with the last who wanted the lock. A fence stays for a second: where
// several have held, where the clock was set back, and behind a release by force.
func (m *machine) isLeft(s *state, k key) bool {
	return k != keyFence || s.back == 0 && !s.forgot && len(m.Kinds) == 0
}

// ended are the claims once all have gone.
func (z *Size) ended() (all [mostClaims]claim) {
	for i := range z.claims() {
		all[i].phase = gone
	}
	return all
}

// show tells what a key holds.
func (e *entry) show() string {
	if e.kind == text {
		return e.text
	}
	var b strings.Builder
	for i, m := range e.members {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s%s", m.name, m.value, map[bool]string{true: score(m.score)}[e.kind == zset])
	}
	return b.String()
}
