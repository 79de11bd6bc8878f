package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// This file has the states: what Lockers, network and server are at one moment.

const (
	second Time = 1_000_000
	unit        = second / 2 // all durations of the scripts are multiples of it
	origin      = 2000 * unit

	ttl     = 3 * second // of every lock; a waiter gets 2 s at first (FIRST_TTL_MS)
	minHold = 2 * second // for how long a lock stays taken at least, with Stays

	// longAgo is how many units a time is back from which on no script counts any more: only the order of such
	// times matters.
	longAgo = 28

	mostLockers = 3
	mostClaims  = 4
	mostLocks   = 2
)

// A phase is how far a claim has come.
type phase uint8

const (
	idle    phase = iota
	resting       // another of its process sees to its turn
	asking        // its question is under way
	waiting       // it has a place in the queue, and rests
	holding       // it has the lock, and relies on it
	giving        // its release is under way
	leaving       // nobody wants it any more, and the janitor removes what it has left
	gone
)

// A claim is one call of Acquire with all that follows: one token, one hold at most.
type claim struct {
	phase    phase
	renewed  bool  // it has renewed: once is enough to see what comes of it
	doubt    bool  // a question of it has had no reply, so the janitor comes behind its release
	released bool  // a release of it has had no reply, and may have been carried out
	behind   bool  // it began while a release of its own process was under way
	looked   bool  // of Do: no answer is there for it, so it makes one
	served   bool  // of Do: another's answer is its own, too; or it is told of work that was begun
	unsure   bool  // with Notes: a question whether its work may be noted had no reply
	began    bool  // with Notes: its work has begun
	lost     bool  // with Notes: the lock was lost behind the intent, and the work goes on
	undone   bool  // with Notes: the work is as if it had not begun; under a ticket: it has failed
	spent    bool  // with a ticket, while it is removed: what is left is removed already, and the ticket's token not yet
	discards bool  // the ticket's token is removed, too
	came     Time  // when it began
	arrived  Time  // the same, to the microsecond; of Do alone
	ahead    uint8 // who stood in the queue when it began, a bit for each claim, as long as this one has no place there itself
	asked    Time  // when its last question that was answered was sent
	answered Time  // what the server's clock showed then
	fence    Time  // known while it holds
	estimate Time  // it has the lock by SET, with this in its value
	trusted  Time  // it relies on the lock until then
	since    Time  // with Stays: since when it has the lock, until what it has left is removed
	news     news  // of a grant, while its question is under way
	local    local
}

// A local is what a claim's Locker knows of it by itself, with Rests, and what is to be seen of it.
type local struct {
	entered Time  // when it came, to the microsecond
	granted Time  // from when on its tenure counts
	others  Time  // when the first came who is known to wait elsewhere; 0: nobody
	missed  bool  // messages for its Locker may have been lost since it came
	due     bool  // the one of its Locker that stands in the queue asks for the last time, or has, so it is to have a place itself
	known   uint8 // who of other Lockers stood in the queue when Redis granted the lock, or was told of since, a bit for each
}

// A news is what a message has told: the grant's fence, since when it counts, and for how long.
type news struct{ fence, since, lasts Time }

// A message is one for a Locker on its way.
type message struct {
	claim     uint8
	revoked   bool
	contended bool // with Rests: somebody waits elsewhere
	waits     Time // with Rests: when the first came of those who wait; 0: nobody is known to
	fence, at Time
	first     Time // the TTL that the grant came with
}

// A locker is one process's.
type locker struct {
	dead  bool // the process has ended, and says nothing any more
	deaf  bool // its subscription is broken
	inbox []message
}

// A what is a kind of command.
type what uint8

const (
	set     what = iota // SET, EXISTS, TIME, GET: four steps, between which others may come
	all                 // all.lua, for all claims of a call, in the name of the first
	acquire             // acquire.lua
	resume              // resume.lua
	renew               // renew.lua
	look                // recall.lua, by one who has the lock
	note                // recall.lua, by one whose work begins
	find                // recall.lua, by one whose release has found nothing
	resolve             // resolve.lua, by an operator
	give                // give.lua
	release             // release.lua
	offer               // releaseto.lua
	handOn              // handon.lua
	remove              // release.lua with a place to leave: the janitor's
	discard             // the same of the ticket's token
)

// A command is one that is under way. There is no order among them, since each may have a connection of its own; but what follows a release of
// its own process comes behind that on its connection.
type command struct {
	what     what
	claim    uint8
	next     uint8 // of offer: the claim to which the lock is offered; with brings: who has a place
	step     uint8 // of the four of set, or of the form that concerns one key, how many are done
	certain  bool  // of what gives back, or gives up: when it was carried out, nothing of the claim could arrive any more
	executed bool  // its reply is under way
	lost     bool  // nobody waits for it, and it may arrive yet
	keeps    bool  // of release: with an answer, keep.lua
	undone   bool  // with keeps: there is none, and the intent goes
	followed bool  // of a release that is not awaited: a call of its process follows
	follows  bool  // of set: the release that is followed
	last     bool  // of acquire: the place is given up if it is not granted
	brings   bool  // with last: next has a place then
	sent     Time
	came     Time  // when the claim began
	arrived  Time  // the same, to the microsecond; of Do alone
	ahead    uint8 // who stood in the queue when the claim began, of what may take the lock
	fence    Time  // the caller's; of resume, the number of the ticket
	estimate Time
	beside   Time // of the form that concerns one key: the fence that was found beside the lock
	stay     Time // of release: for how long the lock is to stay taken
	reply    reply
}

// takes is the claim for which a command may take the lock.
func (c *command) takes() uint8 {
	if c.what == offer {
		return c.next
	}
	return c.claim
}

// A reply is what a command's outcome was.
type reply struct {
	yes    bool // granted, renewed, given back
	placed bool // of acquire that brings: next has a place
	fence  Time
	second Time // of all: the fence of the second lock
	clock  Time
	alone  bool  // EXISTS found nothing
	same   bool  // GET found what SET wrote
	jumped bool  // somebody who was there had waited for the lock
	next   uint8 // one more than the claim of the same Locker that a release has handed the lock to
	first  Time  // for how long
	answer uint8 // one more than the claim whose answer was found
	begun  uint8 // one more than the claim whose work is noted as begun
	waits  Time  // with Rests: when the first came of those who wait; 0: nobody
	given  Time  // of offer: the fence of the one to whom the lock was offered, who has it now
	spent  bool  // of resume: the ticket has nothing, and never will
}

// A lock is what the server has of one, and what its holders were told.
type lock struct {
	db           db
	forgot       bool  // Redis did not keep its word
	robbed       uint8 // who had the lock when Redis did not keep its word, a bit for each claim; of those who got it later all is asked for
	highest      Time  // the highest fence of those who held
	highestAlone Time  // the highest of those who held alone
}

// A state is everything at one moment.
type state struct {
	real     Time // what passes for all alike
	back     Time // by how much the server's clock was set back
	locks    [mostLocks]lock
	claims   [mostClaims]claim
	lockers  [mostLockers]locker
	net      []command
	faults   uint8 // how many there were
	leaves   uint8 // how many callers have left
	resolves uint8 // how often an operator has said that work is to be done again
	died     bool  // a process has died
	moving   bool  // a slot moves
	moved    bool  // one does, or did

	stays  Time  // a lock that was released is to stay taken until then; 0: it is not
	stayer uint8 // whose it is

	made [mostClaims]Time // when the answer of a claim was kept; 0: none is there

	work   works
	ticket ticket
}

// clone returns a copy that may be changed.
func (s *state) clone() *state {
	c := *s
	c.net = slices.Clone(s.net)
	return &c
}

// now is what the server's clock shows.
func (s *state) now() Time { return s.real - s.back }

// send puts a command on its way.
func (s *state) send(c command) {
	of := &s.claims[c.claim]
	c.sent, c.came, c.ahead, c.arrived = s.clock(), of.came, of.ahead, of.arrived
	if c.what == offer || c.brings {
		c.came, c.ahead = s.claims[c.next].came, s.claims[c.next].ahead
	}
	s.net = append(s.net, c)
}

// clock is what a Locker's clock shows: no more than the unit matters of it, since a lease that counts from the unit's
// begin is relied on for less time.
func (s *state) clock() Time { return s.real - s.real%unit }

// late reports whether a command of the claim may arrive yet of which nobody waits for the reply.
func (z *Size) late(s *state, claim uint8) bool {
	return slices.ContainsFunc(s.net, func(c command) bool {
		if (c.what == offer || c.brings) && c.next == claim && !c.executed {
			return true
		}
		isOf := c.claim == claim || c.what == all && c.claim == z.parts(claim)[0]
		return isOf && c.lost && !c.executed && (c.what < note || c.what > resolve) // those take nothing
	})
}

// times calls see with each time of the state, which may change it. Of those that are exact the order matters to the
// microsecond: fences and arrivals, and what the clock shows.
func (s *state) times(see func(t *Time, exact bool)) {
	exact := func(t *Time) { see(t, true) }
	rough := func(t *Time) { see(t, false) }
	exact(&s.real)
	exact(&s.ticket.number)
	rough(&s.stays)
	for i := range s.claims {
		c := &s.claims[i]
		exact(&c.fence)
		exact(&c.arrived)
		exact(&c.news.fence)
		exact(&c.local.entered)
		exact(&c.local.others)
		for _, t := range []*Time{&c.news.since, &c.came, &c.asked, &c.answered, &c.estimate, &c.trusted, &c.since, &c.local.granted} {
			rough(t)
		}
	}
	for i := range s.made {
		exact(&s.made[i])
	}
	for i := range s.lockers {
		inbox := slices.Clone(s.lockers[i].inbox)
		for n := range inbox {
			exact(&inbox[n].fence)
			exact(&inbox[n].waits)
			rough(&inbox[n].at)
		}
		s.lockers[i].inbox = inbox
	}
	for i := range s.net {
		c := &s.net[i]
		for _, t := range []*Time{&c.sent, &c.came, &c.estimate} {
			rough(t)
		}
		for _, t := range []*Time{&c.fence, &c.arrived, &c.reply.fence, &c.reply.second, &c.reply.clock, &c.reply.waits, &c.reply.given, &c.beside} {
			exact(t)
		}
	}
	for i := range s.locks {
		exact(&s.locks[i].highest)
		exact(&s.locks[i].highestAlone)
		s.locks[i].db.times(exact, rough)
	}
}

// times is the same of a lock's keys.
func (d *db) times(exact, rough func(*Time)) {
	for i := range d {
		e := &d[i]
		if e.kind == absent {
			continue
		}
		rough(&e.ends)
		e.text = timesIn(e.text, exact)
		members := slices.Clone(e.members)
		for n := range members {
			m := &members[n]
			m.value = timesIn(m.value, rough)
			if at := math.Abs(m.score); at >= 1e8 {
				whole, part := math.Floor(at), at-math.Floor(at)
				t := Time(whole)
				exact(&t)
				m.score = math.Copysign(float64(t)+part, m.score)
			}
		}
		e.members = members
	}
}

// timesIn returns the text with its times, which are its long numbers, as see leaves them.
func timesIn(text string, see func(*Time)) string {
	if len(text) < 9 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		switch {
		case end-i >= 9:
			t, _ := strconv.ParseInt(text[i:end], 10, 64)
			see(&t)
			b.WriteString(strconv.FormatInt(t, 10))
			i = end
		case end > i:
			b.WriteString(text[i:end])
			i = end
		default:
			b.WriteByte(text[i])
			i++
		}
	}
	return b.String()
}

// normalise gives the state the one form of all that differ from it in nothing that matters: when it is, and how
// many microseconds lie between two moments of which it matters only that they are two. Units are kept, since durations
// are added to times; what is below a unit keeps its order, with room for what a script adds.
func (s *state) normalise() {
	for i := range s.locks {
		s.locks[i].db.expire(s.now())
	}
	s.forgetWhatIsOver()
	var micros, old []Time
	base := s.real / unit
	s.times(func(t *Time, exact bool) {
		if *t == 0 {
			return
		}
		if !exact { // it counts from the begin of its unit: all that ends, ends a moment sooner
			*t -= *t % unit
		}
		if micro := *t % unit; micro > 0 {
			micros = append(micros, micro)
		}
		if n := *t / unit; n < base-longAgo {
			old = append(old, n)
		}
	})
	slices.Sort(micros)
	micros = slices.Compact(micros)
	slices.Sort(old)
	old = slices.Compact(old)
	s.times(func(t *Time, _ bool) {
		if *t == 0 {
			return
		}
		micro := *t % unit
		if micro > 0 {
			rank, _ := slices.BinarySearch(micros, micro)
			micro = 4 * Time(rank+1)
		}
		n := *t/unit - base
		if n < -longAgo {
			at, _ := slices.BinarySearch(old, *t/unit)
			n = -longAgo - Time(len(old)-at)
		}
		*t = origin + n*unit + micro
	})
	s.sortNet()
}

// sortNet gives what is under way one order: it has none.
func (s *state) sortNet() {
	slices.SortFunc(s.net, func(a, b command) int {
		return cmp.Or(cmp.Compare(bit(a.keeps), bit(b.keeps)), cmp.Compare(bit(a.undone), bit(b.undone)), cmp.Compare(a.claim, b.claim), cmp.Compare(a.what, b.what), cmp.Compare(a.step, b.step), cmp.Compare(a.sent, b.sent),
			cmp.Compare(bit(a.executed), bit(b.executed)), cmp.Compare(bit(a.lost), bit(b.lost)), cmp.Compare(bit(a.last), bit(b.last)),
			cmp.Compare(a.reply.clock, b.reply.clock))
	})
}

// forgetWhatIsOver clears what nobody will ask for.
func (s *state) forgetWhatIsOver() {
	if s.locks[0].db[keyAnswer].kind == absent {
		clear(s.made[:])
	}
	if s.stays <= s.real && s.locks[0].db[keyLock].kind == absent {
		s.stays, s.stayer = 0, 0
	}
	for i := range s.claims {
		c := &s.claims[i]
		switch c.phase {
		case holding, giving:
			c.came, c.ahead, c.asked, c.answered, c.news = 0, 0, 0, 0, news{}
			if c.phase == giving || c.looked {
				c.arrived = 0
			}
		case leaving:
			*c = claim{phase: leaving, fence: c.fence, spent: c.spent, discards: c.discards, since: c.since}
		case gone:
			since := c.since
			if since+minHold <= s.clock() {
				since = 0
			}
			*c = claim{phase: gone, since: since}
		case idle, resting, asking, waiting: // all of it matters
		}
	}
	for i := range s.net {
		c := &s.net[i]
		if c.what != acquire && c.what != set && c.what != offer || c.executed {
			c.ahead = 0
		}
		if c.what != acquire && c.what != offer {
			c.came = 0
		}
		if c.what != acquire && c.what != look {
			c.arrived = 0
		}
		if c.what != set && c.what != give && c.what != release && c.what != handOn {
			c.estimate = 0
		}
		if c.lost {
			c.reply = reply{}
		}
	}
}
