package model

import (
	"bytes"
	"regexp"
	"slices"
)

// This file gives the Lockers other names, with Alike: of states that differ in the names alone one is looked at.

// A renaming has the new place of each Locker, by its old one.
type renaming [mostLockers]uint8

var asTheyAre = renaming{0, 1, 2}

// rename gives a state, normalised, the names that those have which differ from it in the names alone. It finds them by what each Locker has. Where two
// have the same, and the state is not the same with their names exchanged, two states are looked at in the place of one, which does no harm.
func (m *machine) rename(s *state) renaming {
	if !m.Alike || len(m.Scripts) > 1 {
		return asTheyAre
	}
	order := [mostLockers]uint8{0, 1, 2}
	var has [mostLockers][]byte
	for i := range m.Lockers {
		has[i] = m.has(s, uint8(i), nil)
	}
	slices.SortStableFunc(order[:m.Lockers], func(a, b uint8) int { return bytes.Compare(has[a], has[b]) })
	var to renaming
	for at, i := range order {
		to[i] = uint8(at)
	}
	if to != asTheyAre {
		m.renameAs(s, to)
	}
	return to
}

// has appends what a Locker has, without its name.
func (m *machine) has(s *state, n uint8, b []byte) []byte {
	first := n * uint8(m.Claims)
	for i := range m.Claims {
		c := s.claims[first+uint8(i)]
		c.ahead, c.local.known = many(c.ahead), many(c.local.known) // who they are has a name
		b = c.encode(b)
	}
	one := locker{dead: s.lockers[n].dead, deaf: s.lockers[n].deaf, inbox: slices.Clone(s.lockers[n].inbox)}
	for i := range one.inbox {
		one.inbox[i].claim -= first
	}
	b = one.encode(b)
	for _, o := range s.net {
		if m.of(o.claim) != n {
			continue
		}
		o.claim -= first
		if o.what == offer || o.brings {
			o.next -= first
		}
		if o.reply.next > 0 {
			o.reply.next -= first
		}
		o.ahead = many(o.ahead)
		b = o.encode(b)
	}
	for i := range m.locks() {
		d := &s.locks[i].db
		b = append(b, s.locks[i].robbed>>first&(1<<m.Claims-1))
		if text := d[keyLock].text; text != "" && text[0] == 'A'+n {
			b = append(b, text[1:]...)
		}
		for at, waiter := range d[keyQueue].members {
			if waiter.name[0] == 'A'+n {
				b = append(append(b, byte(at)), waiter.name[1:]...)
			}
		}
	}
	return b
}

// many is how many claims a set of them has.
func many(set uint8) (n uint8) {
	for ; set > 0; set &= set - 1 {
		n++
	}
	return n
}

// renameAs gives a state the names.
func (m *machine) renameAs(s *state, to renaming) {
	was, claims := *s, uint8(m.Claims)
	claim := func(n uint8) uint8 { return to[n/claims]*claims + n%claims }
	set := func(of uint8) (renamed uint8) {
		for n := range uint8(m.claims()) {
			renamed |= of >> n & 1 << claim(n)
		}
		return renamed
	}
	for i := range m.claims() {
		c := was.claims[i]
		c.ahead, c.local.known = set(c.ahead), set(c.local.known)
		s.claims[claim(uint8(i))] = c
	}
	for i, l := range was.lockers[:m.Lockers] {
		l.inbox = slices.Clone(l.inbox)
		for k := range l.inbox {
			l.inbox[k].claim = claim(l.inbox[k].claim)
		}
		s.lockers[to[i]] = l
	}
	for i := range s.net {
		o := &s.net[i]
		o.claim, o.ahead = claim(o.claim), set(o.ahead)
		if o.what == offer || o.brings {
			o.next = claim(o.next)
		}
		if o.reply.next > 0 {
			o.reply.next = claim(o.reply.next-1) + 1
		}
	}
	s.sortNet()
	for i := range m.locks() {
		s.locks[i].robbed = set(s.locks[i].robbed)
		s.locks[i].db.rename(to)
	}
}

// rename gives the keys the names: a token begins with that of its Locker, and some members have a sign in front of it.
func (d *db) rename(to renaming) {
	d[keyLock].text = to.ofFirst(d[keyLock].text)
	for _, k := range [...]key{keyQueue, keyLockers, keyHolders} {
		e := &d[k]
		e.members = slices.Clone(e.members)
		for i := range e.members {
			e.members[i].name = to.ofFirst(e.members[i].name)
		}
		slices.SortFunc(e.members, member.compare)
	}
}

// ofFirst gives the Locker with whose name a text begins its new one.
func (r renaming) ofFirst(text string) string {
	at := 0
	if text != "" && text[0] == '=' {
		at = 1
	}
	if len(text) <= at || text[at] < 'A' || text[at] >= 'A'+mostLockers {
		return text
	}
	return text[:at] + string('A'+rune(r[text[at]-'A'])) + text[at+1:]
}

// after returns the renaming by which Lockers have their first names again, where r does so for one that was renamed since.
func (r renaming) after(since renaming) (back renaming) {
	for old, now := range since {
		back[now] = r[old]
	}
	return back
}

var named = regexp.MustCompile(`\b[ABC]\.\d|Locker [ABC]`)

// in gives the Lockers that a text names their names by r.
func (r renaming) in(text string) string {
	return named.ReplaceAllStringFunc(text, func(name string) string {
		b := []byte(name)
		at := 0
		if b[0] == 'L' {
			at = len(b) - 1
		}
		b[at] = 'A' + r[b[at]-'A']
		return string(b)
	})
}
