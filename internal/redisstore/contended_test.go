package redisstore

import (
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// The holder's locker is told when somebody of another one comes to wait, and again
// whenever that one asks; nobody is told of those of its own locker.
func TestTheHolderIsToldWhoWaits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		e := p.hear()
		for _, scripted := range []bool{true, false} {
			p.scripted = scripted
			held := p.take()
			p.refused(p.ref(time.Minute), store.Wait)
			r := other.ref(time.Minute)
			came := other.refused(r, store.Wait).Clock
			want := waits{"k", held.Token, came}
			if got := await.Receive(t, "the message", e.othersWait); got != want {
				t.Errorf("told of %+v, want %+v", got, want)
			}
			other.refused(r, store.Wait)
			if got := await.Receive(t, "the message again", e.othersWait); got != want {
				t.Errorf("told again of %+v, want %+v", got, want)
			}
			early := other.ref(time.Minute)
			place := store.Place{Waited: time.Second}
			a, err := other.Acquire(t.Context(), store.Request{Ref: early, Join: store.Wait, Place: place})
			if err != nil {
				t.Fatal(err)
			}
			want.came = a.Clock - place.Waited.Microseconds()
			if got := await.Receive(t, "the message about another one", e.othersWait); got != want {
				t.Errorf("told of %+v, want %+v: it came before", got, want)
			}
			client.FlushAll(t.Context())
		}
	})
}

// Whoever is granted the lock is told when the first of those came who wait on.
func TestAGrantTellsWhoWaitsOn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		e := p.hear()
		held := p.take()
		first, second := p.ref(time.Minute), other.ref(time.Minute)
		p.refused(first, store.Wait)
		came := other.refused(second, store.Wait).Clock

		p.release(held, false, store.HandedOver)
		if g := await.Receive(t, "the grant", e.grants); g.Ref.Token != first.Token || g.NextCame != came {
			t.Errorf("by a release: %+v, want that the next one came at %d", g, came)
		}
		if a := p.get(first, store.Wait); a.NextCame != came {
			t.Errorf("asked again: the next one came at %d, want %d", a.NextCame, came)
		}
		third := p.ref(time.Minute)
		did, a, err := p.releaseTo(t.Context(), first, third, store.Place{Waited: time.Hour})
		if did != store.HandedOver || !a.Granted || a.NextCame != came || err != nil {
			t.Errorf("Release to the next = %v, %+v, %v, want that the next one came at %d", did, a, err, came)
		}
		other.release(second, true, store.NotHeld)
		fourth := p.ref(time.Minute)
		if a := p.passOn(third, fourth, store.HandedOver, true); a.NextCame != 0 {
			t.Errorf("nobody waits on, and the answer says that one came at %d", a.NextCame)
		}
		p.release(fourth, false, store.Freed)
	})
}

// Whoever loses the lock by force is told so, also one of several; and the next fence is
// above those that its locker may have used by then.
func TestForceReleaseTellsTheHolders(t *testing.T) {
	const turns = 1_000_000
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		e := p.hear()
		for _, kind := range []store.Kind{{}, {Shared: true}, {Permits: 3}} {
			for _, scripted := range []bool{true, false} {
				p.scripted = scripted
				held := p.ref(time.Minute)
				held.Kind = kind
				fence := p.get(held, store.Try).Fence
				if err := other.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				if got := await.Receive(t, "the message", e.revoked); got != "k "+held.Token {
					t.Errorf("told of %q, want %s", got, held.Token)
				}
				r := other.ref(time.Minute)
				if next := other.get(r, store.Try).Fence; kind == (store.Kind{}) && next <= fence+turns {
					t.Errorf("fence %d after %d and a forced release, want one above %d", next, fence, fence+turns)
				}
				other.release(r, false, store.Freed)
				client.FlushAll(t.Context())
			}
		}
	})
}
