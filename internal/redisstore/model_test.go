package redisstore

import (
	"slices"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A model is what queue.lua keeps, in Go: who holds the lock, who waits, and
// which processes live. Moments are the server's, in microseconds.
type model struct {
	now     int64
	holder  string // "" nobody; it need not be one of ours
	expires int64
	grants  int // so far

	queue      []*claim
	queueUntil int64
	alive      map[*member]*sign
	aliveUntil int64
}

// A claim is one token with its TTL.
type claim struct {
	store.Ref
	member *member
}

// A member is one process. It says that it hears (subscribed of its Store) or
// not, and somebody receives on its channel or not.
type member struct {
	*probe
	receives bool
	claims   []*claim
}

// A sign says until when a process lives, and whether it said that it hears.
type sign struct {
	until int64
	hears bool
}

const (
	lives      = 2500 * time.Millisecond // after a process's last question
	deaf       = 1500 * time.Millisecond // once it was not heard
	keep       = 10 * time.Second        // an untouched queue
	firstHeard = 2 * time.Second         // of a grant to a waiter that is told
	firstAsked = time.Second             // of one that finds it by asking
)

func (m *model) in(d time.Duration) int64 { return m.now + d.Microseconds() }

// elapse lets d pass, and everything end whose time has come.
func (m *model) elapse(d time.Duration) {
	m.now = m.in(d)
	if d < 0 { // the ends of TTLs are moments on the clock
		return
	}
	if m.expires <= m.now {
		m.holder = ""
	}
	if m.queueUntil <= m.now {
		m.queue = nil
	}
	if m.aliveUntil <= m.now {
		clear(m.alive)
	}
}

func (m *model) grant(holder string, ttl time.Duration) {
	m.grants++
	m.extend(holder, ttl)
}

func (m *model) extend(holder string, ttl time.Duration) { m.holder, m.expires = holder, m.in(ttl) }

func (m *model) leave(c *claim) {
	m.queue = slices.DeleteFunc(m.queue, func(other *claim) bool { return other == c })
}

// A turn is what a question came to.
type turn struct {
	granted  bool
	fresh    bool
	released store.Released
	told     *claim // the waiter whose process was told about its grant
}

func (m *model) acquire(c *claim, join store.Join) (t turn) {
	free := m.holder == ""
	switch {
	case m.holder == c.Token:
		m.extend(c.Token, c.TTL)
		return turn{granted: true}
	case free && len(m.queue) == 0:
		m.grant(c.Token, c.TTL)
		return turn{granted: true}
	}
	if join == store.Wait {
		t.fresh = m.enqueue(c)
	}
	if free {
		heir := m.succeed(c)
		if heir == nil || heir == c {
			m.leave(c)
			m.grant(c.Token, c.TTL)
			return turn{granted: true}
		}
		t.told = m.told(heir)
	}
	if join == store.Last {
		m.leave(c)
	}
	return t
}

func (m *model) enqueue(c *claim) (fresh bool) {
	if !slices.Contains(m.queue, c) {
		m.queue = append(m.queue, c)
	}
	fresh = m.alive[c.member] == nil
	m.alive[c.member] = &sign{m.in(lives), c.member.subscribed.Load()}
	m.queueUntil, m.aliveUntil = m.in(keep), m.in(keep)
	return fresh
}

func (m *model) release(c *claim, leave bool) (t turn) {
	if leave {
		m.leave(c)
	}
	if m.holder != "" && m.holder != c.Token {
		return turn{released: store.NotHeld}
	}
	held := m.holder != ""
	m.holder = ""
	if heir := m.succeed(nil); heir != nil {
		t.told, t.released = m.told(heir), store.HandedOver
	} else {
		t.released = store.Freed
		if len(m.queue) == 0 {
			clear(m.alive)
		}
	}
	if !held {
		t.released = store.NotHeld
	}
	return t
}

func (m *model) renew(c *claim) (held bool) {
	if m.holder != c.Token {
		return false
	}
	m.extend(c.Token, c.TTL)
	return true
}

// succeed gives the lock to the first who can have it: the one that asks, who
// sets it itself; one whose process is told, or polls, or asks just now.
func (m *model) succeed(asks *claim) (heir *claim) {
	notHeard := make(map[*member]bool)
	var passed []*claim
	queue := m.queue
	for len(queue) > 0 && heir == nil {
		c := queue[0]
		queue = queue[1:]
		s := m.alive[c.member]
		switch {
		case c == asks:
			heir = c
		case notHeard[c.member]:
			passed = append(passed, c)
		case s == nil || s.until <= m.now:
			delete(m.alive, c.member)
		case s.hears && !c.member.receives && (asks == nil || asks.member != c.member):
			notHeard[c.member] = true
			s.until = min(s.until, m.in(deaf))
			passed = append(passed, c)
		default:
			heir = c
			first := firstAsked
			if s.hears {
				first = firstHeard
			}
			m.grant(c.Token, min(c.TTL, first))
		}
	}
	if len(m.queue) > 0 {
		m.queueUntil = m.in(keep)
	}
	m.queue = slices.Concat(passed, queue)
	return heir
}

// told is c if its process received a message about its grant.
func (m *model) told(c *claim) *claim {
	if m.alive[c.member].hears && c.member.receives {
		return c
	}
	return nil
}
