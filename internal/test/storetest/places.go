package storetest

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// places is about waiters that say since when they wait and how many more
// their process has, see store.Place. Only a store that Queues needs to mind that.
var places = []test{
	{"AWaiterStandsWhereItsWaitBegan", aWaiterStandsWhereItsWaitBegan},
	{"AFreeLockIsForTheOneWhoCameFirst", aFreeLockIsForTheFirst},
	{"ThoseBehindAreCounted", thoseBehindAreCounted},
	{"ThoseBehindAPassAreCounted", thoseBehindAPassAreCounted},
	{"OneThatLeavesBringsTheNext", oneThatLeavesBringsTheNext},
	{"OneThatIsGrantedTheLockLastBringsNobody", oneThatIsGrantedLastBringsNobody},
	{"OneThatHasLeftBringsNobody", oneThatHasLeftBringsNobody},
}

// waits has r stand in the queue, at that place if it does not stand there yet.
func (p *process) waits(r store.Ref, place store.Place) {
	p.Helper()
	p.mustQueue()
	p.pass(time.Millisecond)
	p.insist("Acquire(Wait)", func() error {
		a, err := p.Acquire(p.Context(), store.Request{Ref: r, Join: store.Wait, Place: place, Until: soon()})
		if err == nil && a.Granted {
			p.Fatal("Acquire(Wait) was granted")
		}
		return err
	})
}

// waitsSince has a new token wait that came so long ago.
func (p *process) waitsSince(waited time.Duration) store.Ref {
	p.Helper()
	r := p.ref(long)
	p.waits(r, store.Place{Waited: waited})
	return r
}

func aWaiterStandsWhereItsWaitBegan(w *world) {
	holder, p, e := w.open(), w.open().listen(), w.open().listen()
	r := holder.take(long)
	late := e.queue(long)
	early := p.waitsSince(time.Minute)
	between := e.waitsSince(time.Second)
	// Who stands there does not move, whatever it says.
	p.waits(early, store.Place{})
	p.waits(early, store.Place{Waited: time.Microsecond})
	e.waits(late, store.Place{Waited: time.Hour})
	e.waits(between, store.Place{Waited: time.Hour})
	holder.release(r, false, store.HandedOver)
	p.hears(early)
	p.release(early, false, store.HandedOver)
	e.hears(between)
	e.release(between, false, store.HandedOver)
	e.hears(late)
	e.release(late, false, store.Freed)
	w.mustBeEmpty("the last release")
}

// aFreeLockIsForTheFirst, also when the store learns of that one only by the
// question that finds the lock free.
func aFreeLockIsForTheFirst(w *world) {
	holder, p, other := w.open(), w.open(), w.open()
	holder.take(long)
	late := other.queue(long)
	w.drop()
	early := p.ref(long)
	p.mustQueue()
	p.insist("Acquire(Wait)", func() error {
		p.pass(time.Millisecond)
		a, err := p.Acquire(p.Context(), store.Request{Ref: early, Join: store.Wait, Place: store.Place{Waited: time.Minute}})
		if err == nil && !a.Granted {
			w.Error("Acquire of one who came first was not granted")
		}
		return err
	})
	w.mustHold(early.Token)
	other.mustNotGet(late, store.Wait)
	p.release(early, false, store.HandedOver)
	other.release(late, false, store.Freed)
	w.mustBeEmpty("the last release")
}

// brings has r ask for the last time, and bring next a place.
func (p *process) brings(r, next store.Ref, place store.Place) (a store.Answer) {
	p.Helper()
	p.mustQueue()
	p.pass(time.Millisecond)
	p.insist("Acquire(Last) with a next one", func() (err error) {
		a, err = p.Acquire(p.Context(), store.Request{Ref: r, Join: store.Last, Again: true, Next: store.Waiter{Ref: next, Place: place}, Until: soon()})
		return err
	})
	return a
}

// oneThatLeavesBringsTheNext of its process, which came before another one: nobody is served between the two.
func oneThatLeavesBringsTheNext(w *world) {
	holder, p, e := w.open(), w.open().listen(), w.open().listen()
	r := holder.take(long)
	first, late := p.waitsSince(time.Hour), e.queue(long)
	next := p.ref(long)
	for range 2 {
		if a := p.brings(first, next, store.Place{Waited: time.Minute, Behind: 2}); a.Granted || !a.Placed || a.Fresh {
			w.Errorf("Acquire(Last) with a next one = %+v, want that it has a place", a)
		}
	}
	holder.counts(4, "the next one with 2 behind it, and one of another process")
	holder.release(r, false, store.HandedOver)
	p.hears(next)
	p.release(next, false, store.HandedOver)
	e.hears(late)
	e.release(late, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func oneThatIsGrantedLastBringsNobody(w *world) {
	holder, p := w.open(), w.open().listen()
	holder.take(long)
	first, next := p.queue(long), p.ref(long)
	w.drop()
	if a := p.brings(first, next, store.Place{Waited: time.Second}); !a.Granted || a.Placed {
		w.Errorf("Acquire(Last) of the first one = %+v, want the lock alone", a)
	}
	p.release(first, false, store.Freed)
	w.mustBeEmpty("the release")
}

// oneThatHasLeftBringsNobody: its question comes late, when the next one may have had the lock by itself. A place would be handed it once more.
func oneThatHasLeftBringsNobody(w *world) {
	holder, p := w.open(), w.open()
	r := holder.take(long)
	first, next := p.queue(long), p.ref(long)
	p.release(first, true, store.NotHeld)
	if a := p.brings(first, next, store.Place{Waited: time.Second}); a.Granted || a.Placed {
		w.Errorf("Acquire(Last) of one that has left = %+v, want that nobody has a place", a)
	}
	holder.release(r, false, store.Freed)
	w.mustBeEmpty("the release")
}

// counts wants p to see that many wait.
func (p *process) counts(want int, when string) {
	p.Helper()
	p.insist("Inspect", func() error {
		info, err := p.Inspect(p.Context(), lock)
		if err == nil && info.Waiting != want {
			p.Errorf("%s: %d wait, want %d", when, info.Waiting, want)
		}
		return err
	})
}

func thoseBehindAreCounted(w *world) {
	holder, p, other := w.open(), w.open(), w.open()
	r := holder.take(long)
	a, b := p.ref(long), other.ref(long)
	p.waits(a, store.Place{Waited: time.Second, Behind: 5})
	holder.counts(6, "one with 5 behind it")
	other.counts(6, "one with 5 behind it")
	p.counts(1, "one with 5 of our own behind it")
	other.waits(b, store.Place{Behind: 10})
	holder.counts(17, "one with 5 behind it, and one with 10")
	p.counts(12, "one with 10 behind it, and one with 5 of our own")
	p.waits(a, store.Place{Waited: time.Second, Behind: 3})
	holder.counts(15, "now there are 3 behind it") // told at once
	p.waits(a, store.Place{Waited: time.Second})
	holder.counts(12, "now there is none behind it")
	p.release(a, true, store.NotHeld)
	holder.counts(11, "it has left")
	other.release(b, true, store.NotHeld)
	holder.counts(0, "all have left")
	holder.release(r, false, store.Freed)
	w.mustBeEmpty("the release")
}

func thoseBehindAPassAreCounted(w *world) {
	p, e := w.open(), w.open().listen()
	r, next := p.take(long), p.ref(long)
	first := e.queue(long)
	p.passOn(r, next, store.Place{Behind: 4}, false)
	e.counts(5, "one with 4 behind it")
	p.counts(1, "one with 4 of our own behind it")
	e.hears(first)
	e.release(first, false, store.HandedOver)
	e.counts(4, "it holds")
	p.release(next, false, store.Freed)
	e.counts(0, "nobody is there")
	w.mustBeEmpty("the last release")
}

func oneWhoLeavesAfterAPass(w *world) {
	p, e := w.open(), w.open().listen()
	r, next := p.take(long), p.ref(long)
	first := e.queue(long)
	p.passOn(r, next, store.Place{}, false)
	e.hears(first)
	p.release(next, true, store.NotHeld)
	e.release(first, false, store.Freed)
	w.mustBeEmpty("the one that waited has left")

	r, next = p.take(long), p.ref(long)
	p.passOn(r, next, store.Place{}, true)
	p.release(next, true, store.Freed)
	w.mustBeEmpty("the one that held has left")
}
