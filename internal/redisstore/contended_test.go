package redisstore

import (
	"strings"
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

// The reason travels in a message of its own, before the one that Lockers of earlier versions read exactly. They take a message of
// which they do not know the first word for a grant, which this one is not.
func TestTheReasonOfAForcedReleaseIsAMessageOfItsOwn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		sub := client.Subscribe(t.Context(), p.channels+p.locker)
		defer sub.Close()
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		says := func() string {
			m, err := sub.ReceiveMessage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return m.Payload
		}
		lock := p.keys("k")[0]
		for _, by := range []store.Intervention{{}, {Author: "ana@bastion", Reason: "INC-42: it hangs"}, {Reason: "x"}, {Author: "y"}} {
			held := p.take()
			if err := other.ForceRelease(t.Context(), "k", by); err != nil {
				t.Fatal(err)
			}
			if by != (store.Intervention{}) {
				why := says()
				want := "revoking " + held.Token + " " + escape(by.Author) + " " + escape(by.Reason) + " " + lock
				if why != want {
					t.Errorf("%+v: the message is %q, want %q", by, why, want)
				}
				if _, isGrant := readGrant(p.ns, why); isGrant {
					t.Errorf("%q is taken for a grant", why)
				}
				_, rest, _ := strings.Cut(why, " ")
				if key, token, read, ok := readRevoking(p.ns, rest); key != "k" || token != held.Token || read != by || !ok {
					t.Errorf("%q is read as %q, %q, %+v, %v", why, key, token, read, ok)
				}
			}
			if got, want := says(), "revoked "+held.Token+" "+lock; got != want {
				t.Errorf("%+v: the message is %q, want %q", by, got, want)
			}
		}
	})
}

// Whoever publishes on a Locker's channel does not decide how long its lines in the log are, or what a terminal does with them.
func TestTextsInAMessageAreBounded(t *testing.T) {
	_, _, by, ok := readRevoking("kit", "p.t "+strings.Repeat("a", 1000)+" "+strings.Repeat("%1B", 1000)+" kit:{a key}")
	if !ok || len(by.Author) != store.MostOfAuthor || len(by.Reason) > store.MostOfReason || strings.ContainsRune(by.Reason, '\x1b') {
		t.Errorf("read %+v, %v", by, ok)
	}
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
				if err := other.ForceRelease(t.Context(), "k", store.Intervention{Author: "ana", Reason: "INC 42"}); err != nil {
					t.Fatal(err)
				}
				if got := await.Receive(t, "the message", e.revoked); got != "k "+held.Token+" ana: INC 42" {
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
