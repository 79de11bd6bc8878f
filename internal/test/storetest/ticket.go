package storetest

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// tickets is about stores that hand a lock on to a ticket, see store.Give.
var tickets = []test{
	{"ALockIsHandedOnToATicketAndGoesOnByIt", aLockGoesOnByATicket},
	{"ATicketWorksOnce", aTicketWorksOnce},
	{"AskedTwiceATicketDoesTheSame", aTicketTwice},
	{"ATicketBeforeItsLockIsHandedOn", anEarlyTicket},
	{"AStrangerHandsNothingOn", aStrangerHandsNothingOn},
	{"WhoWaitsKeepsHisPlaceBehindATicket", placesBehindATicket},
	{"ATicketIsRemovedAsAnyToken", aTicketIsRemoved},
	{"ATicketEndsByItself", aTicketEnds},
}

// handOn hands r's lock on to a new ticket, and returns what asks for it by that. number is what names r's grant.
func (p *process) handOn(r store.Ref, lasts time.Duration, number int64) (t store.Ticket) {
	p.Helper()
	t = store.Ticket{Token: p.NewTicket("note"), Lasts: lasts, Issuer: number}
	if did := p.handOnTo(r, t); did != store.HandedOn {
		p.Fatalf("Release to a ticket = %v, want %v", did, store.HandedOn)
	}
	return t
}

func (p *process) handOnTo(r store.Ref, t store.Ticket) (did store.Released) {
	p.Helper()
	p.mustQueue()
	p.pass(time.Millisecond)
	p.insist("Release to a ticket", func() (err error) {
		did, _, err = p.Release(p.Context(), store.Give{Ref: r, Ticket: t})
		return err
	})
	return did
}

// resume asks for the lock by a ticket.
func (p *process) resume(r store.Ref, t store.Ticket) (a store.Answer) {
	p.Helper()
	p.pass(time.Millisecond)
	p.insist("Acquire by a ticket", func() (err error) {
		a, err = p.Acquire(p.Context(), store.Request{Ref: r, Ticket: &t, Until: soon()})
		return err
	})
	return a
}

// holders are those that Inspect tells of.
func (p *process) holders() []store.Holder {
	p.Helper()
	var info store.Info
	p.insist("Inspect", func() (err error) {
		info, err = p.Inspect(p.Context(), lock)
		return err
	})
	return info.Holders
}

func aLockGoesOnByATicket(w *world) {
	p, other := w.open(), w.open()
	r := p.ref(long)
	a := p.mustGet(r, store.Try)
	if h := p.holders(); len(h) != 1 || h[0].HandedOn {
		w.Errorf("before the lock is handed on Inspect = %+v", h)
	}
	r.Fence = a.Fence + 3 // leases have followed one another, and the store was not told
	t := p.handOn(r, 2*long, a.Number())
	w.mustHold(t.Token)
	w.lasts(2*long, "after the lock was handed on")
	refused := other.mustNotGet(other.ref(long), store.Try)
	if h := refused.Holder; !h.HandedOn || h.Instance != p.Instance() || h.Note != "note" || refused.Siblings != "" {
		w.Errorf("whoever asks meanwhile is told %+v and siblings %q", h, refused.Siblings)
	}
	if own := p.mustNotGet(p.ref(long), store.Try); own.Siblings != "" {
		w.Errorf("the issuer's store value takes the ticket for its own: %q", own.Siblings)
	}
	if h := p.holders(); len(h) != 1 || !h[0].HandedOn || h[0].Instance != p.Instance() || h[0].Note != "note" {
		w.Errorf("Inspect = %+v, want one that has handed the lock on", h)
	}
	if p.renew(r) {
		w.Error("who has handed the lock on has renewed it")
	}
	next := other.ref(long)
	got := other.resume(next, t)
	if !got.Granted || got.Fence <= r.Fence {
		w.Fatalf("by the ticket: granted %v with fence %d, want one above %d", got.Granted, got.Fence, r.Fence)
	}
	w.mustHold(next.Token)
	w.lasts(long, "after it went on")
	if !other.renew(next) {
		w.Error("who has gone on could not renew the lock")
	}
	other.release(next, false, store.Freed)
	w.mustBeEmpty("after the last release")
}

func aTicketWorksOnce(w *world) {
	p, other := w.open(), w.open()
	r := p.ref(long)
	a := p.mustGet(r, store.Try)
	r.Fence = a.Fence
	t := p.handOn(r, long, a.Number())
	first := p.ref(long)
	if !p.resume(first, t).Granted {
		w.Fatal("the ticket was refused")
	}
	if again := other.resume(other.ref(long), t); again.Granted || !again.Spent {
		w.Errorf("by the same ticket: granted %v, spent %v, want it spent", again.Granted, again.Spent)
	}
	p.release(first, false, store.Freed)
	if again := other.resume(other.ref(long), t); again.Granted || !again.Spent {
		w.Errorf("by the same ticket, when the lock is free: granted %v, spent %v, want it spent", again.Granted, again.Spent)
	}
	w.mustBeEmpty("after the release")
}

func aTicketTwice(w *world) {
	p := w.open()
	r := p.ref(long)
	a := p.mustGet(r, store.Try)
	r.Fence = a.Fence
	t := p.handOn(r, long, a.Number())
	if did := p.handOnTo(r, t); did != store.HandedOn {
		w.Errorf("handed on again: %v, want %v", did, store.HandedOn)
	}
	next := p.ref(long)
	first, again := p.resume(next, t), p.resume(next, t)
	if !again.Granted || again.Fence != first.Fence {
		w.Errorf("asked again: granted %v with fence %d, want %d", again.Granted, again.Fence, first.Fence)
	}
	if did := p.handOnTo(r, t); did != store.NotHeld {
		w.Errorf("handed on when another has the lock: %v, want %v", did, store.NotHeld)
	}
	w.mustHold(next.Token)
	p.release(next, false, store.Freed)

	// The first command of the issuer comes again, late, and so does its hand-on.
	p.pass(time.Millisecond)
	late := p.mustGet(r, store.Try)
	if did := p.handOnTo(r, t); did != store.NotHeld || late.Number() == t.Issuer {
		w.Errorf("handed on behind a grant that came late: %v, want %v", did, store.NotHeld)
	}
	w.mustHold(r.Token)
	r.Fence = late.Fence
	p.release(r, false, store.Freed)
}

func anEarlyTicket(w *world) {
	p, other := w.open(), w.open()
	for _, waits := range []bool{false, true, false} { // the second time by a script, and then with the mark that somebody waits
		r := p.ref(long)
		a := p.mustGet(r, store.Try)
		r.Fence = a.Fence
		t := store.Ticket{Token: p.NewTicket(""), Issuer: a.Number(), Lasts: long}
		if waits {
			other.mustNotGet(other.ref(long), store.Wait)
		}
		early := other.ref(long)
		if got := other.resume(early, t); got.Granted || got.Spent || got.Left <= 0 {
			w.Fatalf("before the lock was handed on: granted %v, spent %v, %v left", got.Granted, got.Spent, got.Left)
		}
		p.handOnTo(r, t)
		if got := other.resume(early, t); !got.Granted {
			w.Fatal("when the lock was handed on: not granted")
		}
		other.leave(early, false)
		w.wipe()
		gone := store.Ticket{Token: p.NewTicket(""), Issuer: a.Number(), Lasts: long}
		if got := other.resume(other.ref(long), gone); got.Granted || !got.Spent {
			w.Errorf("when the lock is free: granted %v, spent %v", got.Granted, got.Spent)
		}
		p.take(long)
		if got := other.resume(other.ref(long), gone); got.Granted || !got.Spent {
			w.Errorf("when another has the lock: granted %v, spent %v", got.Granted, got.Spent)
		}
		w.wipe()
	}
}

func aStrangerHandsNothingOn(w *world) {
	p, other := w.open(), w.open()
	t := store.Ticket{Token: p.NewTicket(""), Lasts: long}
	stranger := other.ref(long)
	stranger.Fence = 1
	if did := other.handOnTo(stranger, t); did != store.NotHeld {
		w.Errorf("of a free lock: %v, want %v", did, store.NotHeld)
	}
	w.mustBeEmpty("after a stranger's release")
	r := p.take(long)
	if did := other.handOnTo(stranger, t); did != store.NotHeld {
		w.Errorf("of another's lock: %v, want %v", did, store.NotHeld)
	}
	w.mustHold(r.Token)
}

func placesBehindATicket(w *world) {
	p, other := w.open(), w.open()
	r := p.ref(long)
	a := p.mustGet(r, store.Try)
	r.Fence = a.Fence
	first, second := other.queue(long), p.queue(long) // at the first's release the second one waits on
	t := p.handOn(r, long, a.Number())
	w.mustHold(t.Token)
	for _, waits := range []struct {
		by *process
		r  store.Ref
	}{{p, second}, {other, first}} {
		waits.by.mustNotGet(waits.r, store.Wait)
	}
	next := p.ref(long)
	if !p.resume(next, t).Granted {
		w.Fatal("the ticket was refused")
	}
	w.mustHold(next.Token)
	p.insist("Release", func() (err error) {
		_, _, err = p.Release(p.Context(), store.Give{Ref: next})
		return err
	})
	w.mustHold(first.Token)
}

func aTicketIsRemoved(w *world) {
	p, other := w.open(), w.open()
	r := p.ref(long)
	a := p.mustGet(r, store.Try)
	r.Fence = a.Fence
	t := p.handOn(r, long, a.Number())
	batch := []store.Removal{{Ref: store.Ref{Key: lock, Token: t.Token, TTL: long}}}
	p.insist("Remove", func() error {
		p.Remove(p.Context(), batch)
		return batch[0].Err
	})
	w.mustBeEmpty("after the removal")
	if got := other.resume(other.ref(long), t); !got.Spent {
		w.Errorf("by a ticket that was removed: spent %v", got.Spent)
	}
}

func aTicketEnds(w *world) {
	p := w.open()
	r := p.ref(long)
	a := p.mustGet(r, store.Try)
	r.Fence = a.Fence
	t := p.handOn(r, short, a.Number())
	w.awaitExpiry()
	if got := p.resume(p.ref(long), t); got.Granted || !got.Spent {
		w.Errorf("by a ticket whose time is over: granted %v, spent %v", got.Granted, got.Spent)
	}
	next := p.ref(long)
	if got := p.mustGet(next, store.Try); got.Fence <= r.Fence {
		w.Errorf("the next fence is %d, want one above %d", got.Fence, r.Fence)
	}
	p.release(next, false, store.Freed)
}
