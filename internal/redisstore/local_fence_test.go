package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A locker that passes its lock on without asking Redis uses fences that Redis does not
// know (lockmw/tenure.go). The tests of this file do the same by that rule, and see that
// whoever has the lock next has a higher fence than all of them.

// A tenure is what a locker holds under one token, from the answer that brought it.
type tenure struct {
	*probe
	store.Ref // its Fence is the last that the locker has used, while it has the lock

	first int64         // the fence that Redis gave
	last  int64         // the last that the locker has used
	clock int64         // Redis's, in the answer
	began time.Duration // the real time of the answer
	since time.Duration // and of the last renewal
	over  bool          // the locker knows that
}

// most is the highest fence that the locker may use at a real time, or 0 if it may not
// pass the lock on.
func (t *tenure) most(at time.Duration) int64 {
	const margin = 100 // 1 %: clocks differ in rate
	passed := at - t.began
	if t.over || passed > min(time.Second, t.TTL/3) || at-t.since > t.TTL/2 {
		return 0
	}
	return min(t.first, t.clock) + (passed - passed/margin).Microseconds()
}

// passOn has the locker use all fences that it may.
func (t *tenure) passOn(at time.Duration) {
	t.Fence = max(t.Fence, t.most(at))
}

// The clock is set back in the middle of a tenure, and the locker, whose lock Redis
// keeps on, uses fences of its own for as long as it may. Then it ends, or is cut off, or
// has the lock taken by force and is not told.
func TestTheNextFenceIsAboveThoseOfATenure(t *testing.T) {
	const ttl = 3 * time.Second
	for name, during := range map[string]func(s *still, p *probe, r store.Ref){
		"":                      func(*still, *probe, store.Ref) {},
		"renewal, ":             func(_ *still, p *probe, r store.Ref) { p.renew(r, true) },
		"question, ":            func(_ *still, p *probe, r store.Ref) { p.get(r, store.Try) },
		"back again, renewal, ": func(s *still, p *probe, r store.Ref) { s.advance(-time.Hour); p.renew(r, true) },
	} {
		for how, end := range map[string]func(s *still, other *probe){
			"expiry": func(s *still, _ *probe) { s.advance(ttl) },
			"force": func(_ *still, other *probe) {
				if err := other.ForceRelease(t.Context(), "k", store.Intervention{}); err != nil {
					t.Error(err)
				}
			},
		} {
			for _, back := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
				for _, scripted := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s%s,back=%v,scripted=%v", name, how, back, scripted), func(t *testing.T) {
						s := newStill(t)
						p, other := s.open(), s.open()
						p.scripted = scripted
						p.release(p.take(), false, store.Freed) // it knows the clock now
						s.advance(time.Millisecond)
						r := p.ref(ttl)
						a := p.get(r, store.Try)
						noteGrant(&r, a)
						h := &tenure{probe: p, Ref: r, first: a.Fence, clock: a.Clock}
						s.advance(-back)
						during(s, p, r)
						h.passOn(time.Second)
						s.advance(10 * time.Millisecond) // it is told late, or not at all
						end(s, other)
						if back > 0 && how == "expiry" && name == "" {
							s.advance(back) // Redis keeps the lock until its clock is there again
						}
						if next := other.get(other.ref(ttl), store.Try).Fence; next <= h.Fence {
							t.Errorf("fence %d, want one above %d, which was used %d µs after %d", next, h.Fence, h.Fence-h.first, h.first)
						}
					})
				}
			}
		}
	}
}

// A release that tells a fence below the one that Redis knows does not lower the next.
func TestAReleaseWithAnOldFence(t *testing.T) {
	for name, release := range map[string]func(p *probe, r store.Ref) (next int64){
		"release": func(p *probe, r store.Ref) int64 {
			p.release(r, false, store.Freed)
			return p.get(p.ref(time.Minute), store.Try).Fence
		},
		"release to a waiter": func(p *probe, r store.Ref) int64 {
			return p.passOn(r, p.ref(time.Minute), store.HandedOver, true).Fence
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStill(t)
			p := s.open()
			p.scripted = true
			r := p.ref(time.Minute)
			noteGrant(&r, p.get(r, store.Try))
			s.advance(-time.Second)
			p.renew(r, true)
			old := r
			old.Fence -= 1000
			if next := release(p, old); next <= r.Fence {
				t.Errorf("fence %d after %d, want a higher one", next, r.Fence)
			}
		})
	}
}

// Lockers take, renew, pass on, release and lose a lock at random, while the clock runs
// and is set back and forth, and nobody is told that a lock was taken by force. All fences
// of each tenure, also those of which Redis does not know, are between those of the tenures
// before and behind it.
func TestRandomTenuresKeepTheirFencesApart(t *testing.T) {
	const steps = 1500
	for seed := uint64(1); seed <= 40; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel() // each has its own server and clock
			h := &tenures{still: newStill(t), rand: rand.New(rand.NewPCG(seed, seed))}
			for range 3 {
				p := h.open()
				p.scripted = seed%2 == 0
				h.members = append(h.members, &tenure{probe: p, over: true})
			}
			for range steps {
				if h.step(); t.Failed() {
					t.Fatalf("the last steps:\n%s", strings.Join(h.log[max(0, len(h.log)-30):], "\n"))
				}
			}
			if h.local == 0 || h.forced == 0 {
				t.Errorf("%d times a lock passed on locally, and %d times it was taken by force, want more", h.local, h.forced)
			}
		})
	}
}

// tenures is one such history. A member that has no tenure may wait.
type tenures struct {
	*still
	rand    *rand.Rand
	real    time.Duration // that has passed, whatever the clock says
	back    time.Duration // by which the clock was set back
	members []*tenure     // the last of each locker
	past    []*tenure     // of all lockers, by the order of their grants
	local   int
	forced  int
	log     []string
}

func (h *tenures) notef(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%12v  %d  ", h.real, h.micros())+fmt.Sprintf(format, args...))
}

func (h *tenures) step() {
	h.Helper()
	i := h.rand.IntN(len(h.members))
	m := h.members[i]
	switch n := h.rand.IntN(100); {
	case n < 25:
		h.ask(i)
	case n < 60:
		if most := m.most(h.real); most > m.Fence {
			h.local++
			h.use(m, m.Fence+1+h.rand.Int64N(most-m.Fence))
			h.use(m, max(m.Fence, m.most(h.real)))
			h.notef("%d passes on, fence %d", i, m.Fence)
		}
	case n < 68:
		if !m.over {
			batch := []store.Renewal{{Ref: m.Ref}}
			m.Renew(context.Background(), batch)
			h.notef("%d renews: %v %v", i, batch[0].Held, batch[0].Err)
			m.since = h.real
			if !batch[0].Held {
				m.ends()
			}
		}
	case n < 72:
		did := m.leave(m.Ref, true)
		m.ends()
		h.notef("%d releases: %v", i, did)
		m.Token = ""
	case n < 76:
		h.releaseTo(i)
	case n < 80:
		if !m.over {
			m.ends() // it dies
			m.Token = ""
			h.notef("%d dies", i)
		}
	case n < 82:
		h.forced++
		h.notef("%d forces", i)
		if err := m.ForceRelease(context.Background(), "k", store.Intervention{}); err != nil {
			h.Error(err)
		}
	case n < 98:
		d := []time.Duration{time.Microsecond, 300 * time.Microsecond, 20 * time.Millisecond, 90 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second}[h.rand.IntN(6)]
		h.real += d
		h.advance(d)
	default:
		d := []time.Duration{-time.Microsecond, -20 * time.Millisecond, -time.Second, -time.Minute, time.Second}[h.rand.IntN(5)]
		if h.back > 0 && h.rand.IntN(3) > 0 {
			d = h.back // or nothing passes on for long
		}
		h.back -= d
		if value, _ := h.mini.Get("kit:{k}"); value == "" { // nothing is kept of a lock that nobody holds
			h.past = nil
			for _, m := range h.members {
				m.ends()
			}
		}
		h.notef("the clock is set by %v", d)
		h.advance(d)
	}
}

// ends notes that the locker knows that it does not have the lock. Redis may give it to
// its token again.
func (t *tenure) ends() { t.over, t.Ref.Fence = true, 0 }

// ask has a locker ask for the lock, for the first time or again.
func (h *tenures) ask(i int) {
	h.Helper()
	m := h.members[i]
	if m.Token == "" {
		m.Ref = m.ref([]time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second, 30 * time.Second}[h.rand.IntN(4)])
	}
	a := m.ask(m.Ref, []store.Join{store.Try, store.Wait}[h.rand.IntN(2)])
	h.notef("%d asks: %+v", i, a)
	switch {
	case !a.Granted:
		m.ends()
	case m.over || a.Fence > m.Fence && a.Fence != m.first:
		h.begins(i, m.Ref, a)
	default:
		m.since = h.real
	}
}

// releaseTo has a locker pass the lock on by way of Redis.
func (h *tenures) releaseTo(i int) {
	h.Helper()
	m := h.members[i]
	if m.over {
		return
	}
	next := m.ref(m.TTL)
	did, a, err := m.releaseTo(context.Background(), m.Ref, next, store.Place{})
	h.notef("%d releases to the next: %v %+v", i, did, a)
	if err != nil {
		h.Error(err)
	}
	m.over, m.Ref = true, next
	if a.Granted {
		h.begins(i, next, a)
	}
}

// begins notes that locker i has got the lock.
func (h *tenures) begins(i int, r store.Ref, a store.Answer) {
	h.Helper()
	noteGrant(&r, a)
	m := &tenure{probe: h.members[i].probe, Ref: r, first: a.Fence, clock: a.Clock, began: h.real, since: h.real}
	h.members[i] = m
	h.past = append(h.past, m)
	h.use(m, a.Fence)
}

// use has a locker use a fence.
func (h *tenures) use(m *tenure, fence int64) {
	h.Helper()
	m.Fence, m.last = fence, fence
	at := slices.Index(h.past, m)
	for i, other := range h.past {
		if at >= 0 && (i < at && other.last >= fence || i > at && other.first <= fence) {
			h.Errorf("tenure %d uses fence %d, and tenure %d has %d to %d", at, fence, i, other.first, other.last)
			h.notef("tenure %d uses fence %d", at, fence)
		}
	}
}
