package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// The part of the random histories that is about offers, see store.Give.

// releaseTo gives back what c holds alone, and next the place of one who came so
// long ago. over says that Redis has noted that next's work is.
func (m *model) releaseTo(c, next *claim, place store.Place, over bool) (t turn) {
	if m.holder != c.Token {
		m.forget()
		if m.holder == next.Token && m.set == "" && !over { // else its fence is not known, and it asks for itself, or it has ended
			m.extend(next, next.TTL, m.fence)
			t.granted = true
		}
		return t
	}
	m.free()
	m.enqueue(next, place.Waited)
	m.releasing, m.tells = c.member, c.Fence > 0
	heirs, _ := m.grantNext(next, c.member)
	m.releasing, m.tells = nil, false
	t.released, t.granted = store.HandedOver, m.holds(next)
	if !t.granted {
		m.heartbeat(c.member, place.Behind, false)
	}
	for _, heir := range heirs {
		if heir.member == c.member && heir != next {
			t.answered = append(t.answered, heir)
		}
	}
	t.told, t.first = m.told(slices.DeleteFunc(heirs, func(heir *claim) bool { return heir.member == c.member }), nil), m.first()
	return t
}

// waiting is how many wait, as by sees it.
func (m *model) waiting(by *member) int {
	n := len(m.queue)
	for who, sign := range m.alive {
		if who != by && sign.until > m.now {
			n += sign.behind
		}
	}
	return n
}

// place is that of one who came just now, or earlier.
func (h *history) place() store.Place {
	waited := []time.Duration{0, 0, 0, time.Microsecond, time.Millisecond, 700 * time.Millisecond, 5 * time.Second, time.Hour}
	behind := []int{0, 0, 1, 4}
	if h.bySet && h.rand.IntN(4) > 0 {
		return store.Place{} // the others are asked about by script
	}
	return store.Place{Waited: waited[h.rand.IntN(len(waited))], Behind: behind[h.rand.IntN(len(behind))]}
}

// holder returns the claim that holds the lock alone, or nil.
func (h *history) holder() *claim {
	for _, m := range h.members {
		for _, c := range m.claims {
			if c.Token == h.model.holder {
				return c
			}
		}
	}
	return nil
}

// next picks another claim of c's locker that wants the lock for itself, or
// returns nil.
func (h *history) next(c *claim) *claim {
	if !slices.Contains(h.kinds, store.Kind{}) {
		return nil
	}
	for range 2 * claims {
		if next := h.claim(c.member); next != c && next.Kind == (store.Kind{}) {
			return next
		}
	}
	return nil
}

// releaseTo passes c's lock on, or more often that of the one who has it.
func (h *history) releaseTo(c *claim) {
	h.Helper()
	if holder := h.holder(); holder != nil && holder.member != h.asker && h.rand.IntN(4) > 0 {
		c = holder
	}
	next, place := h.next(c), h.place()
	if next == nil {
		h.release(c, false, 0)
		return
	}
	over := h.client.ZScore(context.Background(), next.member.keys("k")[keyCount-1], next.Token).Err() == nil
	want := h.model.releaseTo(c, next, place, over)
	did, got, err := c.member.releaseTo(context.Background(), c.Ref, next.Ref, place)
	h.notef("%s passes on to %s (%+v): %v, granted %v, fence %d", h.name(c), h.name(next), place, did, got.Granted, got.Fence)
	if err != nil {
		h.Fatalf("Release to the next: %v", err)
	}
	answer := store.Answer{Granted: want.granted, Grant: store.Grant{Clock: h.micros()}}
	if want.granted {
		answer.Fence, answer.NextCame = next.fence, h.model.first()
	}
	if did != want.released || got != answer {
		h.Errorf("Release to the next = %v, %+v, want %v, %+v", did, got, want.released, answer)
	}
	c.Fence, next.Fence = 0, got.Fence
	h.told(want)
	h.answered(c.member, want.answered)
}

func (h *history) inspect(by *member) {
	h.Helper()
	info, err := by.Inspect(context.Background(), "k")
	want := h.model.waiting(by)
	h.notef("p%d sees %d who wait", slices.Index(h.members, by), info.Waiting)
	if info.Waiting != want || err != nil {
		h.Errorf("Inspect = %+v, %v, want %d who wait", info, err, want)
	}
}

// Within one microsecond, and after the clock was set back, whoever the lock
// goes to.
func TestFencesIncreaseFromPassToPass(t *testing.T) {
	const ttl = 10 * time.Second
	for name, pass := range map[string]func(p, other *probe, r, next store.Ref) int64{
		"at once": func(p, _ *probe, r, next store.Ref) int64 {
			return p.passOn(r, next, store.HandedOver, true).Fence
		},
		"asked again": func(p, _ *probe, r, next store.Ref) int64 {
			p.passOn(r, next, store.HandedOver, true)
			return p.passOn(r, next, store.NotHeld, true).Fence
		},
		"behind another": func(p, other *probe, r, next store.Ref) int64 {
			first := other.ref(ttl)
			other.refused(first, store.Wait)
			p.passOn(r, next, store.HandedOver, false)
			other.release(first, false, store.HandedOver)
			return p.get(next, store.Wait).Fence
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, back := range []time.Duration{0, -time.Microsecond, -time.Hour} {
				s := newStill(t)
				p, other := s.open(), s.open()
				r := p.ref(ttl)
				last := p.get(r, store.Try).Fence
				for range 3 {
					s.advance(back)
					next := p.ref(ttl)
					fence := pass(p, other, r, next)
					if fence <= last {
						t.Errorf("set back by %v: fence %d after %d, want a higher one", -back, fence, last)
					}
					r, last = next, fence
				}
				s.advance(ttl + time.Millisecond) // that grant ends, and its fence is not forgotten
				if fence := p.get(p.ref(ttl), store.Try).Fence; fence <= last {
					t.Errorf("set back by %v, and expired: fence %d after %d, want a higher one", -back, fence, last)
				}
			}
		})
	}
}

// Whoever uses one of a lock's side keys for other data is told so and keeps the
// data, nothing stays for ever, and the lock has one holder.
func TestAPassLeavesOtherDataInASideKeyAlone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for i, side := range []string{"queue", "alive", "fence", "holders"} {
			for _, waiter := range []*store.Kind{nil, {}, {Shared: true}} {
				client, ns := s.Client(t), redistest.Prefix(t)
				p, other := open(t, client, ns), open(t, client, ns)
				planted := p.keys("k")[i+1]
				held, next := p.take(), p.ref(time.Minute)
				if waiter != nil {
					waits := other.ref(time.Minute)
					waits.Kind = *waiter
					other.refused(waits, store.Wait)
				}
				client.Del(t.Context(), planted)
				if err := client.RPush(t.Context(), planted, "data").Err(); err != nil {
					t.Fatal(err)
				}
				_, _, err := p.releaseTo(t.Context(), held, next, store.Place{})
				keepsOtherData(t, client, ns, planted, fmt.Sprintf("%s (waiter %v): Release to the next", side, waiter), err)
			}
		}
	})
}
