package storetest

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// handover is about the moment when a release gives the lock to a waiter.
var handover = []test{
	{"AGrantSaysWhatWasGranted", aGrantSaysWhatWasGranted},
	{"AGrantIsToldToItsProcessAlone", aGrantIsToldToItsProcessAlone},
	{"AGrantLastsShortlyUntilItIsRenewed", aGrantLastsShortly},
	{"APollingWaiterFindsItsGrant", aPollingWaiterFindsItsGrant},
	{"AGrantThatNobodyTakesEndsByItself", aGrantThatNobodyTakesEnds},
	{"AGrantThatIsGivenBackGoesToTheNext", aGrantThatIsGivenBack},
}

// notices is about releases that notice when nobody hears a process.
var notices = []test{
	{"ADeadWaiterIsPassedOverAtOnce", aDeadWaiterIsPassedOver},
	{"ADeadWaiterDoesNotKeepTheLock", aDeadWaiterDoesNotKeepTheLock},
	{"ADeafWaiterKeepsItsPlace", aDeafWaiterKeepsItsPlace},
	{"ADeafWaiterIsServedByItsNextQuestion", aDeafWaiterIsServedByItsNextQuestion},
	{"NothingStaysWhenTheDeafLeave", nothingStaysWhenTheDeafLeave},
}

func aGrantSaysWhatWasGranted(w *world) {
	holder, e := w.open(), w.open().listen()
	for _, name := range oddNames {
		for _, ttl := range []time.Duration{long, firstTTL - time.Millisecond} {
			holds := store.Ref{Key: name, Token: holder.NewToken(""), TTL: long}
			waits := store.Ref{Key: name, Token: e.NewToken(""), TTL: ttl}
			holder.mustGet(holds, store.Try)
			before := e.mustNotGet(waits, store.Wait)
			holder.release(holds, false, store.HandedOver)
			g := e.hears(waits)
			after := e.mustGet(waits, store.Wait)

			if g.Ref.Key != name || g.Ref.Token != waits.Token || g.Ref.TTL <= 0 || g.Ref.TTL > min(ttl, firstTTL) {
				w.Errorf("grant = %+v, want %+v with a TTL of at most %v", g.Ref, waits, min(ttl, firstTTL))
			}
			if g.Fence != after.Fence {
				w.Errorf("grant of %q: fence %d, and %d when asked", name, g.Fence, after.Fence)
			}
			if g.Clock < before.Clock || g.Clock > after.Clock {
				w.Errorf("grant of %q at %d, want it between %d and %d", name, g.Clock, before.Clock, after.Clock)
			}
			e.release(waits, false, store.Freed)
		}
	}
	w.mustBeEmpty("the last release")
}

func aGrantIsToldToItsProcessAlone(w *world) {
	holder, e, other := w.open(), w.open().listen(), w.open().listen()
	r := holder.take(long)
	waits, behind := e.queue(long), other.queue(long)
	holder.release(r, false, store.HandedOver)
	e.hears(waits)
	other.heardNothing()
	e.release(waits, false, store.HandedOver)
	other.hears(behind)
	e.heardNothing()
}

func aGrantLastsShortly(w *world) {
	holder, e := w.open(), w.open().listen()
	for _, ttl := range []time.Duration{long, firstTTL - time.Millisecond} {
		r := holder.take(long)
		waits := e.queue(ttl)
		holder.release(r, false, store.HandedOver)
		e.hears(waits)
		if left := w.left(); left <= 0 || left > min(ttl, firstTTL) {
			w.Errorf("PTTL after the hand-over = %v, want at most %v", left, min(ttl, firstTTL))
		}
		if !e.renew(waits) {
			w.Error("Renew of a fresh grant = false, want true")
		}
		if left := w.left(); left <= ttl-timeout || left > ttl {
			w.Errorf("PTTL after Renew = %v, want nearly %v", left, ttl)
		}
		e.release(waits, false, store.Freed)
	}
}

func aPollingWaiterFindsItsGrant(w *world) {
	holder, p := w.open(), w.open()
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		r := holder.take(long)
		waits := p.queue(long)
		holder.release(r, false, store.HandedOver)
		w.mustHold(waits.Token)
		if left := w.left(); left <= 0 || left > firstTTL {
			w.Errorf("PTTL after the hand-over = %v, want at most %v", left, firstTTL)
		}
		p.mustGet(waits, join)
		if left := w.left(); left <= firstTTL {
			w.Errorf("PTTL after the question = %v, want nearly %v", left, long)
		}
		p.release(waits, false, store.Freed)
		w.mustBeEmpty("the release")
	}
}

func aGrantThatNobodyTakesEnds(w *world) {
	holder, dead, p := w.open(), w.open(), w.open()
	r := holder.take(long)
	dead.queue(short)
	waits := p.queue(long)
	holder.release(r, false, store.HandedOver)
	w.awaitExpiry() // bounded by the dead waiter's own TTL
	p.mustGet(waits, store.Wait)
	p.release(waits, false, store.Freed)
	w.mustBeEmpty("the release")
}

func aGrantThatIsGivenBack(w *world) {
	holder, p, e := w.open(), w.open(), w.open().listen()
	r := holder.take(long)
	gaveUp, next := p.queue(long), e.queue(long)
	holder.release(r, false, store.HandedOver)
	p.release(gaveUp, true, store.HandedOver)
	e.hears(next)
	p.release(gaveUp, true, store.NotHeld)
	w.mustHold(next.Token)
	e.release(next, false, store.Freed)
	w.mustBeEmpty("the release")
}

func aDeadWaiterIsPassedOver(w *world) {
	holder, dead, e := w.open(), w.open().listen(), w.open().listen()
	r := holder.take(long)
	dead.queue(long)
	dead.queue(long)
	waits := e.queue(long)
	dead.deafen()
	dead.close()
	holder.release(r, false, store.HandedOver)
	e.hears(waits)
	w.mustHold(waits.Token)
}

func aDeadWaiterDoesNotKeepTheLock(w *world) {
	holder, dead, newcomer := w.open(), w.open().listen(), w.open()
	r := holder.take(long)
	dead.queue(long)
	dead.queue(long)
	dead.deafen()
	dead.close()
	holder.release(r, false, store.Freed)
	w.mustHold("")
	newcomer.take(long)
}

func aDeafWaiterKeepsItsPlace(w *world) {
	holder, deaf, e := w.open(), w.open().listen(), w.open().listen()
	r := holder.take(long)
	a1, a2, b1, b2 := deaf.queue(long), deaf.queue(long), e.queue(long), e.queue(long)
	deaf.deafen()
	holder.release(r, false, store.HandedOver)
	e.hears(b1)
	again := deaf.process.listen()
	deaf.mustNotGet(a2, store.Wait) // one question tells that the process hears
	e.release(b1, false, store.HandedOver)
	again.hears(a1)
	again.release(a1, false, store.HandedOver)
	again.hears(a2)
	again.release(a2, false, store.HandedOver)
	e.hears(b2)
	e.release(b2, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func aDeafWaiterIsServedByItsNextQuestion(w *world) {
	holder, deaf := w.open(), w.open().listen()
	r := holder.take(long)
	a, b := deaf.queue(long), deaf.queue(long)
	deaf.deafen()
	holder.release(r, false, store.Freed)
	if got := deaf.mustNotGet(b, store.Wait); got.Siblings != a.Token {
		w.Errorf("Siblings = %q, want %q, which stood in front", got.Siblings, a.Token)
	}
	deaf.mustGet(a, store.Wait)
	deaf.release(a, false, store.HandedOver)
	deaf.mustGet(b, store.Wait)
	deaf.release(b, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func nothingStaysWhenTheDeafLeave(w *world) {
	p, other := w.open(), w.open()
	for _, order := range permutations([]int{0, 1, 2, 3}) {
		a, b := p.listen(), other.listen()
		refs := []store.Ref{p.take(long), other.queue(long), p.queue(long), other.queue(long)}
		a.deafen()
		b.deafen()
		for _, i := range order {
			p.leave(refs[i], true)
		}
		if left := w.keys(); len(left) > 0 {
			w.Errorf("leaving in the order %v left %v", order, left)
		}
	}
}
