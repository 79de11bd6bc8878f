package storetest

import (
	"sync"

	"github.com/lockmw/kit/internal/store"
)

func permit(n int) store.Kind { return store.Kind{Permits: n} }

// permits is about a number of holders.
var permits = []test{
	{"NeverMoreThanItsPermitsHold", neverMoreThanItsPermitsHold},
	{"OnePermitExcludesLikeAMutex", onePermitExcludes},
	{"PermitsAreServedInTheOrderOfArrival", permitsAreServedInOrder},
	{"ADeadHoldersPermitComesFreeByItself", aDeadHoldersPermitComesFree},
	{"APermitsWaiterSeesTheFirstEnd", aPermitsWaiterSeesTheFirstEnd},
	{"TheSmallerOfTwoNumbersBindsWhileInUse", theSmallerNumberBinds},
	{"TheNextSmallerNumberBindsAfterTheSmallest", theNextSmallerNumberBinds},
	{"TheSmallerNumberWaitsForEnoughToLeave", theSmallerNumberWaits},
	{"APermitThatIsAskedForAgainIsOne", aPermitThatIsAskedForAgainIsOne},
	{"ManyAtOnceGetTheirPermitsOnly", manyAtOnceGetTheirPermitsOnly},
	{"PermitsExcludeAForeignProgram", permitsExcludeAForeignProgram},
	{"AForeignHolderExcludesPermits", func(w *world) { w.foreignerExcludes(permit(3)) }},
	{"ALostPermitIsNeitherRenewedNorReleased", aLostPermitIsNeitherRenewedNorReleased},
}

func neverMoreThanItsPermitsHold(w *world) {
	p, other := w.open(), w.open()
	for _, n := range []int{1, 2, 5} {
		var held []store.Ref
		for i := range n {
			held = append(held, []*process{p, other}[i%2].takeAs(permit(n), long))
		}
		for range 3 {
			other.excluded(permit(n))
			p.release(held[0], false, store.Freed)
			held = append(held[1:], other.takeAs(permit(n), long))
		}
		for _, r := range held {
			if !p.renew(r) {
				w.Errorf("%d permits: a holder was not renewed", n)
			}
			p.release(r, true, store.Freed)
			p.release(r, true, store.NotHeld)
		}
		w.mustBeEmpty("the last release")
	}
}

func onePermitExcludes(w *world) {
	p, other := w.open(), w.open()
	r := p.takeAs(permit(1), long)
	for _, kind := range []store.Kind{permit(1), permit(2), reader, writer} {
		other.excluded(kind)
	}
	p.release(r, false, store.Freed)
	other.take(long)
}

func permitsAreServedInOrder(w *world) {
	p, e := w.open(), w.open().listen()
	held := []store.Ref{p.takeAs(permit(2), long), p.takeAs(permit(2), long)}
	var line []store.Ref
	for range 6 {
		line = append(line, e.queueAs(permit(2)))
	}
	for _, r := range line {
		e.excluded(permit(2))
		e.release(held[0], false, store.HandedOver)
		e.hears(r)
		held = append(held[1:], r)
	}
	e.heardNothing()
	for _, r := range held {
		e.release(r, false, store.Freed)
	}
	w.mustBeEmpty("the last release")
}

func aDeadHoldersPermitComesFree(w *world) {
	p, other := w.open(), w.open()
	lives, dies := p.takeAs(permit(2), long), p.takeAs(permit(2), short)
	waits := other.as(permit(2), long)
	w.outlast(short)
	other.mustGet(waits, store.Wait)
	other.excluded(permit(2)) // the one that lives holds on
	if p.renew(dies) {
		w.Error("Renew of a dead holder's permit = true, want false")
	}
	for _, r := range []store.Ref{lives, waits} {
		if !p.renew(r) {
			w.Error("a holder lost its permit to another's death")
		}
		p.release(r, false, store.Freed)
	}
	w.mustBeEmpty("the releases")
}

func aPermitsWaiterSeesTheFirstEnd(w *world) {
	p, other := w.open(), w.open()
	p.takeAs(permit(3), long)
	p.takeAs(permit(3), long/4)
	p.takeAs(permit(3), long/2)
	for kind, want := range map[store.Kind]int{permit(3): 4, permit(5): 4, reader: 1, writer: 1} {
		end := long / 4
		if want == 1 {
			end = long // they wait for all
		}
		if left := other.mustNotGet(other.as(kind, long), store.Try).Left; left <= end-timeout || left > end {
			w.Errorf("%+v: Left = %v, want nearly %v", kind, left, end)
		}
	}
}

// theSmallerNumberBinds those who want more, until its holder is over.
func theSmallerNumberBinds(w *world) {
	p, other := w.open(), w.open()
	small, large := p.takeAs(permit(2), long), other.takeAs(permit(4), long)
	for range 2 {
		other.excluded(permit(4))
		other.excluded(permit(2))
		if !p.renew(small) || !other.renew(large) {
			w.Error("one of the two was not renewed")
		}
	}
	p.release(small, false, store.Freed)
	other.release(large, false, store.Freed)

	p.takeAs(permit(2), short)
	other.takeAs(permit(4), long)
	w.outlast(short)
	for range 3 {
		other.takeAs(permit(4), long)
	}
	other.excluded(permit(4))
	other.excluded(permit(2))
}

// theNextSmallerNumberBinds: of three numbers, the middle one is not forgotten
// while the smallest binds.
func theNextSmallerNumberBinds(w *world) {
	p, other := w.open(), w.open()
	p.takeAs(permit(2), short)
	p.takeAs(permit(3), long)
	w.outlast(short)
	other.takeAs(permit(5), long)
	other.takeAs(permit(5), long)
	other.excluded(permit(5))
}

func theSmallerNumberWaits(w *world) {
	p, e := w.open(), w.open().listen()
	held := []store.Ref{p.takeAs(permit(4), long), p.takeAs(permit(4), long), p.takeAs(permit(4), long)}
	small, large := e.queueAs(permit(2)), e.queueAs(permit(4))
	p.release(held[0], false, store.Freed)
	e.heardNothing()
	p.release(held[1], false, store.HandedOver)
	e.hears(small)
	e.mustNotGet(large, store.Wait)
	e.heardNothing()
	p.release(held[2], false, store.HandedOver)
	e.hears(large)
	for _, r := range []store.Ref{small, large} {
		e.release(r, false, store.Freed)
	}
	w.mustBeEmpty("the releases")
}

func aPermitThatIsAskedForAgainIsOne(w *world) {
	p, other := w.open(), w.open()
	r := p.as(permit(2), long)
	fence := p.mustGet(r, store.Try).Fence
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		if got := p.mustGet(r, join).Fence; got != fence {
			w.Errorf("Acquire(%s) again: fence %d, want %d as before", joins[join], got, fence)
		}
	}
	beside := other.takeAs(permit(2), long)
	p.mustGet(r, store.Try) // also when no permit is left
	other.excluded(permit(2))
	p.release(r, false, store.Freed)
	other.release(beside, false, store.Freed)
	w.mustBeEmpty("one release of each")
}

func manyAtOnceGetTheirPermitsOnly(w *world) {
	const n = 3
	processes := []*process{w.open(), w.open()}
	for range 5 {
		var mu sync.Mutex
		var granted []store.Ref
		var wg sync.WaitGroup
		for i := range 16 {
			p := processes[i%2]
			wg.Go(func() {
				r := p.as(permit(n), long)
				a, err := p.Acquire(w.Context(), store.Request{Ref: r, Until: soon()})
				if err != nil {
					w.Errorf("Acquire: %v", err)
				}
				if a.Granted {
					mu.Lock()
					granted = append(granted, r)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(granted) != n {
			w.Errorf("%d of 16 were granted, want %d", len(granted), n)
		}
		for _, r := range granted {
			processes[0].release(r, false, store.Freed)
		}
	}
	w.mustBeEmpty("the releases")
}

func permitsExcludeAForeignProgram(w *world) {
	p := w.open()
	w.foreignersAreRefused([]store.Ref{p.takeAs(permit(2), long), p.takeAs(permit(2), long/2)}, p)
}

func aLostPermitIsNeitherRenewedNorReleased(w *world) {
	p, other := w.open(), w.open()
	for _, next := range []store.Kind{permit(2), reader, writer} {
		lost := p.takeAs(permit(2), short)
		w.outlast(short)
		r := other.takeAs(next, long)
		if p.renew(lost) {
			w.Error("Renew of a lost permit = true, want false")
		}
		p.release(lost, false, store.NotHeld)
		p.releaseStaying(lost, long, store.NotHeld)
		if !other.renew(r) {
			w.Error("a lost permit's release ended another's lease")
		}
		other.release(r, false, store.Freed)
		w.mustBeEmpty("the release")
	}
}
