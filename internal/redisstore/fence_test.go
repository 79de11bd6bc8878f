package redisstore

import (
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Of several holders the one with the longest lease keeps the fence, also
// where others came later with less time, by themselves or by a hand-over.
func TestTheFenceLastsAsLongAsTheLastHolder(t *testing.T) {
	for name, join := range map[string]func(s *still, p, waits *probe){
		"asks": func(_ *still, _, waits *probe) { waits.get(shared(waits, time.Second), store.Try) },
		"is let in": func(_ *still, p, waits *probe) {
			writer := p.ref(time.Minute)
			p.refused(writer, store.Wait)
			waits.refused(shared(waits, time.Second), store.Wait)
			p.release(writer, true, store.NotHeld)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStill(t)
			p, waits := s.open(), s.open()
			r := shared(p, time.Minute)
			p.get(r, store.Try)
			join(s, p, waits)
			s.wantFenceFor(61 * time.Second)
			s.advance(30 * time.Second)
			p.renew(r, true)
			s.wantFenceFor(61 * time.Second)
			s.advance(30 * time.Second)
			p.get(r, store.Try)
			s.wantFenceFor(61 * time.Second)
		})
	}
}

func TestAReleaseThatStaysKeepsTheFenceForAsLong(t *testing.T) {
	for _, kind := range []store.Kind{{Shared: true}, {Permits: 2}} {
		s := newStill(t)
		p := s.open()
		r := p.ref(time.Minute)
		r.Kind = kind
		p.get(r, store.Try)
		for range 2 {
			if did, _, err := p.Release(t.Context(), store.Give{Ref: r, Stay: 2 * time.Second}); did != store.Freed || err != nil {
				t.Errorf("%+v: Release that stays = %v, %v, want %v", kind, did, err, store.Freed)
			}
			s.wantFenceFor(3 * time.Second)
		}
		s.advance(3 * time.Second)
		s.wantEmpty()
	}
}

// A release that offered the lock to a waiter, and comes once more behind the end of that waiter's work, leaves the key to cool down. One
// that comes while the waiter works has the same answer again.
func TestALateReleaseToOneWhoseWorkIsOver(t *testing.T) {
	const stay = 20 * time.Second
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client := s.Client(t)
		p := open(t, client, redistest.Prefix(t))
		r, next := p.ref(time.Minute), p.ref(time.Minute)
		noteGrant(&r, p.get(r, store.Try))
		noteGrant(&next, p.passOn(r, next, store.HandedOver, true))
		if again := p.passOn(r, next, store.NotHeld, true); again.Fence != next.Fence {
			t.Errorf("asked again: fence %d, want %d", again.Fence, next.Fence)
		}
		if did, _, err := p.Release(t.Context(), store.Give{Ref: next, Stay: stay}); did != store.Freed || err != nil {
			t.Fatalf("Release that stays = %v, %v, want %v", did, err, store.Freed)
		}
		p.passOn(r, next, store.NotHeld, false)
		if left := client.PTTL(t.Context(), p.keys("k")[0]).Val(); left <= 0 || left > stay {
			t.Errorf("the lock is kept for %v, want the %v for which it is to stay", left, stay)
		}
	})
}

func shared(p *probe, ttl time.Duration) store.Ref {
	r := p.ref(ttl)
	r.Kind.Shared = true
	return r
}

func (s *still) wantFenceFor(d time.Duration) {
	s.Helper()
	if got := s.ttls()[3]; got != d.Milliseconds() {
		s.Errorf("the fence is kept for %d ms, want %v", got, d)
	}
}
