package storetest

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// offers is about stores that offer a lock when they give it back, see store.Give.
var offers = []test{
	{"ALockIsPassedOnInOneStep", aLockIsPassedOn},
	{"ALockIsPassedOnFiftyTimes", aLockIsPassedOnFiftyTimes},
	{"PassedOnAWaiterThatCameEarlierGoesFirst", anEarlierWaiterGoesFirst},
	{"PassedOnAWaiterThatCameLaterGoesBehind", aLaterWaiterGoesBehind},
	{"PassedOnToOneWhoStandsWhereItsWaitBegan", nextStandsWhereItsWaitBegan},
	{"PassedOnToReadersThatCameEarlier", earlierReadersGoFirst},
	{"APassAskedForAgainGivesTheSameGrant", aPassAskedForAgain},
	{"AStrangerPassesNothingOn", aStrangerPassesNothingOn},
	{"AReaderPassesNothingOn", func(w *world) { oneOfSeveralPassesNothingOn(w, reader) }},
	{"OneWhoLeavesAfterAPassLeavesNothing", oneWhoLeavesAfterAPass},
	{"APassIsForTheLeastTime", aPassIsForTheLeastTime},
}

// permitOffers is the part of offers that needs permits.
var permitOffers = []test{
	{"APermitPassesNothingOn", func(w *world) { oneOfSeveralPassesNothingOn(w, permit(2)) }},
}

// mustQueue ends a test of what p's Store cannot do.
func (p *process) mustQueue() {
	p.Helper()
	if !p.Queues() {
		p.Skip("the store has no queues")
	}
}

// releaseTo reports what a pass did. Without the first answer it is not sure.
func (p *process) releaseTo(r, next store.Ref, place store.Place) (did store.Released, a store.Answer, sure bool) {
	p.Helper()
	p.mustQueue()
	p.pass(time.Millisecond)
	sure = p.insist("Release to the next", func() (err error) {
		did, a, err = p.Release(p.Context(), store.Give{Ref: r, Next: store.Waiter{Ref: next, Place: place}})
		return err
	})
	if !a.Granted && a.Fence != 0 {
		p.Errorf("Release to the next = %+v, want a fence with a grant only", a)
	}
	return did, a, sure
}

// passOn wants r's lock to be next's, or if that is not granted, another
// waiter's.
func (p *process) passOn(r, next store.Ref, place store.Place, granted bool) store.Answer {
	p.Helper()
	did, a, sure := p.releaseTo(r, next, place)
	if sure && did != store.HandedOver || a.Granted != granted {
		p.Fatalf("Release to the next = %v, granted %v, want %v, granted %v", did, a.Granted, store.HandedOver, granted)
	}
	return a
}

// passNothing wants a pass that changes nothing.
func (p *process) passNothing(r, next store.Ref) {
	p.Helper()
	// The time would put next in front of everybody.
	if did, a, _ := p.releaseTo(r, next, store.Place{Waited: time.Hour, Behind: 3}); did != store.NotHeld || a.Granted {
		p.Errorf("Release to the next = %v, granted %v, want %v", did, a.Granted, store.NotHeld)
	}
}

func aLockIsPassedOn(w *world) {
	p, other := w.open(), w.open()
	r, next := p.ref(long), p.ref(long)
	first := p.mustGet(r, store.Try)
	a := p.passOn(r, next, store.Place{Waited: time.Second, Behind: 2}, true)
	if a.Fence <= first.Fence {
		w.Errorf("fence %d after %d, want a higher one", a.Fence, first.Fence)
	}
	w.mustHold(next.Token)
	w.lasts(long, "after the pass") // no renewal has to come soon
	for _, by := range []*process{p, other} {
		for _, kind := range []store.Kind{writer, reader} {
			by.excluded(kind)
		}
	}
	if last := other.mustNotGet(other.ref(long), store.Try); a.Clock <= first.Clock || a.Clock > last.Clock {
		w.Errorf("passed on at %d, want it between %d and %d", a.Clock, first.Clock, last.Clock)
	}
	if p.renew(r) {
		w.Error("Renew of the token that passed the lock on = true, want false")
	}
	p.release(r, false, store.NotHeld)
	if again := p.mustGet(next, store.Try); again.Fence != a.Fence {
		w.Errorf("asked for: fence %d, want %d as passed on", again.Fence, a.Fence)
	}
	p.release(next, false, store.Freed)
	w.mustBeEmpty("the release")
}

func aLockIsPassedOnFiftyTimes(w *world) {
	p, e := w.open(), w.open().listen()
	for _, contended := range []bool{false, true} {
		seen := rising{world: w}
		r := p.ref(long)
		seen.add(p.mustGet(r, store.Try).Fence, "first grant")
		var waits store.Ref
		for i := range 50 {
			if contended && i == 10 { // all the others came before
				waits = e.queue(long)
			}
			next := p.ref(long)
			seen.add(p.passOn(r, next, store.Place{Waited: time.Hour}, true).Fence, "after a pass")
			r = next
		}
		w.mustHold(r.Token)
		if contended {
			p.release(r, false, store.HandedOver)
			seen.add(e.hears(waits).Fence, "behind the passes")
			e.release(waits, false, store.Freed)
		} else {
			p.release(r, false, store.Freed)
		}
		w.mustBeEmpty("the last release")
	}
}

// anEarlierWaiterGoesFirst: it gets the lock from a process whose next one came
// after it, and in its turn hands over to that one.
func anEarlierWaiterGoesFirst(w *world) {
	p, e, other := w.open().listen(), w.open().listen(), w.open().listen()
	r, next := p.take(long), p.ref(long)
	first := e.queue(long)
	p.passOn(r, next, store.Place{}, false)
	e.hears(first)
	w.mustHold(first.Token)
	late := other.queue(long)
	p.mustNotGet(next, store.Wait) // asks, and keeps its place
	e.release(first, false, store.HandedOver)
	p.hears(next)
	w.mustHold(next.Token)
	p.release(next, false, store.HandedOver)
	other.hears(late)
	other.release(late, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func aLaterWaiterGoesBehind(w *world) {
	p, e := w.open().listen(), w.open().listen()
	r, next := p.take(long), p.ref(long)
	late := e.queue(long)
	p.passOn(r, next, store.Place{Waited: time.Minute}, true)
	w.mustHold(next.Token)
	w.lasts(long, "passed on in front of a waiter")
	e.mustNotGet(late, store.Wait)
	e.heardNothing()
	p.heardNothing() // the answer told
	p.release(next, false, store.HandedOver)
	e.hears(late)
	e.release(late, false, store.Freed)
	w.mustBeEmpty("the last release")
}

// nextStandsWhereItsWaitBegan: between others, of which one is its sibling.
func nextStandsWhereItsWaitBegan(w *world) {
	p, e := w.open().listen(), w.open().listen()
	r, next := p.take(long), p.ref(long)
	after := e.waitsSince(time.Minute)
	before := []store.Ref{p.waitsSince(time.Hour), e.waitsSince(50 * time.Minute)}
	p.passOn(r, next, store.Place{Waited: 30 * time.Minute}, false)
	p.hears(before[0])
	p.release(before[0], false, store.HandedOver)
	e.hears(before[1])
	e.release(before[1], false, store.HandedOver)
	p.hears(next)
	p.release(next, false, store.HandedOver)
	e.hears(after)
	e.release(after, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func earlierReadersGoFirst(w *world) {
	p, other := w.open().listen(), w.open().listen()
	r, next := p.take(long), p.ref(long)
	readers := []store.Ref{p.queueAs(reader), other.queueAs(reader), p.queueAs(reader)}
	owners := []*ear{p, other, p}
	p.passOn(r, next, store.Place{}, false)
	for i, held := range readers {
		owners[i].hears(held)
		if !owners[i].renew(held) {
			w.Errorf("reader %d does not hold the lock", i)
		}
	}
	p.excluded(reader) // next is in front
	p.heardNothing()
	for i, held := range readers {
		want := store.Freed
		if i == len(readers)-1 {
			want = store.HandedOver
		}
		owners[i].release(held, false, want)
	}
	p.hears(next)
	w.mustHold(next.Token)
	p.release(next, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func aPassAskedForAgain(w *world) {
	p, e := w.open(), w.open()
	for _, contended := range []bool{false, true} {
		r, next := p.take(long), p.ref(long)
		var late store.Ref
		if contended {
			late = e.queue(long)
		}
		place := store.Place{Waited: time.Minute}
		fence := p.passOn(r, next, place, true).Fence
		for range 2 {
			soon := next
			soon.TTL = long / 2
			if !p.renew(soon) {
				w.Error("Renew of the grant = false, want true")
			}
			did, a, _ := p.releaseTo(r, next, place)
			if did != store.NotHeld || !a.Granted || a.Fence != fence {
				w.Errorf("asked again: %v, %+v, want %v and a grant with fence %d", did, a, store.NotHeld, fence)
			}
			w.lasts(long, "asked again")
		}
		if contended {
			p.release(next, false, store.HandedOver)
			e.release(late, false, store.Freed)
		} else {
			p.release(next, false, store.Freed)
		}
		w.mustBeEmpty("the last release")
	}
}

func aStrangerPassesNothingOn(w *world) {
	p, other, e := w.open(), w.open(), w.open().listen()
	p.passNothing(p.ref(long), p.ref(long))
	w.mustBeEmpty("a pass of a free lock")

	r := other.take(long)
	p.passNothing(p.ref(long), p.ref(long))
	w.mustHold(r.Token)
	if n := len(w.keys()); n != len(w.keyspace.Nodes) {
		w.Errorf("a stranger left %d keys", n)
	}
	waits := e.queue(long)
	p.passNothing(p.ref(long), p.ref(long))
	w.mustHold(r.Token)
	e.heardNothing()
	other.release(r, false, store.HandedOver)
	e.hears(waits)
	e.release(waits, false, store.Freed) // nobody else stands there
	w.mustBeEmpty("the last release")
}

func oneOfSeveralPassesNothingOn(w *world, kind store.Kind) {
	p, other := w.open(), w.open()
	mine, theirs := p.takeAs(kind, long), other.takeAs(kind, long)
	for _, r := range []store.Ref{mine, p.as(kind, long)} {
		p.passNothing(r, p.ref(long))
		if !p.renew(mine) || !other.renew(theirs) {
			w.Error("a holder does not hold the lock any more")
		}
	}
	p.release(mine, false, store.Freed)
	other.release(theirs, false, store.Freed)
	w.mustBeEmpty("the last release")
}
