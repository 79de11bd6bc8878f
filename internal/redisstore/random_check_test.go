package redisstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
)

// The part of the random histories that compares Redis with the model.

// forget has the model forget the last fence, apart from what Redis remembers
// beside the lock: none, or one of before.
func (h *history) forget() {
	kept, _ := h.mini.Get("kit:{k}:fence")
	h.model.fence, _ = strconv.ParseInt(kept, 10, 64)
}

// told wants a message about each one's grant, in order.
func (h *history) told(want turn) {
	h.Helper()
	for _, c := range want.told {
		g, ok := readGrant(c.member.ns, await.Receive(h, "a message", h.news))
		if c.Kind == (store.Kind{}) && g.NextCame != want.first {
			h.Errorf("told that the next one came at %d, want %d", g.NextCame, want.first)
		}
		if want := (store.Ref{Key: "k", Token: c.Token, TTL: c.first(firstHeard)}); !ok || g.Ref != want || g.Fence != c.fence || g.Clock != h.micros() {
			h.Errorf("told of %+v, want %+v with fence %d at %d", g, want, c.fence, h.micros())
		}
	}
}

// hears wants a message to the locker of a token, if that receives messages.
func (h *history) hears(token, message string) {
	h.Helper()
	for _, m := range h.members {
		if strings.HasPrefix(token, m.locker+".") && m.receives {
			if got := await.Receive(h, "a message", h.news); got != message {
				h.Errorf("told %q, want %q", got, message)
			}
		}
	}
}

// answered wants m's listener to have heard about each one's grant, in order.
func (h *history) answered(m *member, heirs []*claim) {
	h.Helper()
	for i, c := range heirs {
		want := store.News{
			Ref:   store.Ref{Key: "k", Token: c.Token, TTL: c.first(firstHeard)},
			Grant: store.Grant{Fence: c.fence, Clock: h.micros()},
		}
		if c.Kind == (store.Kind{}) {
			want.NextCame = h.model.first()
		}
		if i >= len(m.heard) || m.heard[i] != want {
			h.Errorf("the answer told %+v, want %+v at %d", m.heard, want, i)
		}
	}
	if len(m.heard) != len(heirs) {
		h.Errorf("the answer told %+v, want %d grants", m.heard, len(heirs))
	}
	m.heard = nil
}

// check compares all that lies in Redis with the model.
func (h *history) check() {
	h.Helper()
	m := &h.model
	value, _ := h.mini.Get("kit:{k}")
	if value != m.value() {
		h.Errorf("the lock is %q, want %q", value, m.value())
	}
	ends := h.micros() + h.mini.TTL("kit:{k}").Microseconds()
	switch off := ends - m.expires; {
	case !m.taken():
	case max(off, -off) >= time.Millisecond.Microseconds():
		h.Errorf("the lock ends at %d, want %d", ends, m.expires)
	default:
		m.expires = ends // when the clock is set back, the embedded Redis moves TTLs by whole milliseconds
	}
	if len(m.several) > 0 {
		holders := make(map[string]float64)
		for _, s := range m.several {
			holders[s.Token], holders["="+s.Token] = float64(s.ends), -float64(s.fence)
			if s.over {
				holders[s.Token] -= 0.5
			}
		}
		if got, _ := h.mini.SortedSet("kit:{k}:holders"); !maps.Equal(got, holders) {
			h.Errorf("the holders are %v, want %v", got, holders)
		}
	}
	want := make(map[string]float64)
	for _, c := range m.queue {
		want[c.Token+":"+terms(c.Ref)] = float64(c.arrival)
	}
	if got, _ := h.mini.SortedSet("kit:{k}:queue"); !maps.Equal(got, want) {
		h.Errorf("the queue is %v, want %v", got, want)
	}
	if got, _ := h.mini.HKeys("kit:{k}:alive"); len(got) != len(h.model.alive) {
		h.Errorf("%d lockers are known: %q, want %d", len(got), got, len(h.model.alive))
	}
	if !h.mini.Exists("kit:{k}:fence") {
		m.room = 0
	}
	for _, key := range h.mini.Keys() {
		if h.mini.TTL(key) <= 0 {
			h.Errorf("%s has no TTL", key)
		}
	}
	if len(h.news) > 0 {
		h.Errorf("told of %q, want nothing", <-h.news)
	}
}

// end has everybody leave, or die.
func (h *history) end() {
	h.Helper()
	const longest = 1000 * time.Hour // the clock was set back, which prolongs TTLs
	h.model.elapse(longest)
	h.advance(longest)
	h.bySet = false // nobody else does anything between the commands
	var there []*claim
	for _, m := range h.members {
		m.scripted = true
		for range claims {
			c := h.claim(m)
			if h.acquire(c, store.Wait, h.place()); !slices.Contains(there, c) {
				there = append(there, c)
			}
		}
	}
	h.check()
	h.rand.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
	for _, c := range there {
		h.release(c, true, 0)
		h.check()
	}
	fence := h.mini.TTL("kit:{k}:fence") // it is kept until the clock has passed it, if that was set back
	h.advance(fence)
	h.wantEmpty()
}
