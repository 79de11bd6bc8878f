package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A ticket's token is of no Locker, whatever a Locker is called, and says whose it is and what its caller noted.
func TestATicketIsOfNoLocker(t *testing.T) {
	for _, name := range []string{"web", "ticket", onTicket, onTicket + "web", "ticket,web.x"} {
		locker := newName(name)
		if _, is := issuerOf(locker); is || strings.Contains(locker, ",") {
			t.Errorf("a Locker called %q is taken for a ticket: %q", name, locker)
		}
		token := newToken(onTicket+locker, "a note")
		issued, is := issuerOf(token)
		if instance, note := readToken(issued); !is || instance != instanceOf(locker) || note != "a note" {
			t.Errorf("a ticket of %q is read as one of %q with the note %q (%v)", name, instance, note, is)
		}
	}
}

// The clock is set back while the issuer is at work, so that it shows less than the fences that were used. Whoever comes by the ticket has
// a higher one all the same, and so has whoever comes when the ticket's time is over.
func TestAFenceBehindATicketWhenTheClockWasSetBack(t *testing.T) {
	for _, resumes := range []bool{true, false} {
		s := newStill(t)
		p := s.open()
		r := p.ref(time.Minute)
		granted := p.get(r, store.Try)
		noteGrant(&r, granted)
		r.Fence += 7 // of leases that followed one another
		s.advance(-time.Hour)
		ticket := store.Ticket{Token: p.NewTicket(""), Lasts: time.Second, Issuer: granted.Number()}
		if did, _, err := p.Release(t.Context(), store.Give{Ref: r, Ticket: ticket}); did != store.HandedOn || err != nil {
			t.Fatalf("Release to a ticket = %v, %v", did, err)
		}
		next := p.ref(time.Minute)
		if resumes {
			a, err := p.Acquire(t.Context(), store.Request{Ref: next, Ticket: &ticket})
			if err != nil || !a.Granted || a.Fence <= r.Fence {
				t.Errorf("by the ticket: %+v, %v, want a fence above %d", a, err, r.Fence)
			}
			continue
		}
		s.advance(2 * time.Second)
		if a, err := p.Acquire(t.Context(), store.Request{Ref: next, Join: store.Try}); err != nil || a.Granted && a.Fence <= r.Fence {
			t.Errorf("when the ticket's time is over: %+v, %v, want no fence up to %d", a, err, r.Fence)
		}
		s.advance(time.Hour + 2*time.Second)
		if a := p.get(p.ref(time.Minute), store.Try); a.Fence <= r.Fence {
			t.Errorf("when the clock has passed the fence: %d, want one above %d", a.Fence, r.Fence)
		}
	}
}
