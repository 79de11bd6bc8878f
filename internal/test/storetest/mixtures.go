package storetest

import "github.com/lockmw/kit/internal/store"

// mixtures is about one key that is used in several ways.
var mixtures = []test{
	{"KindsExcludeEachOther", kindsExcludeEachOther},
	{"KindsHandOverToEachOtherInOrder", kindsHandOverInOrder},
	{"TheLastPermitMakesWayForReadersAlone", theLastPermitMakesWayForReadersAlone},
	{"NothingStaysOfKindsInWhicheverOrderTheyLeave", nothingStaysOfKinds},
}

// kindFences is about the fences of all kinds.
var kindFences = []test{
	{"FencesIncreaseOverAllKinds", fencesIncreaseOverAllKinds},
}

var kinds = []store.Kind{writer, reader, permit(2), permit(3)}

func kindsExcludeEachOther(w *world) {
	p, other := w.open(), w.open()
	for _, holds := range kinds {
		for _, asks := range kinds {
			r := p.takeAs(holds, long)
			if holds == reader && asks == reader || holds.Permits > 0 && asks.Permits > 0 {
				other.release(other.takeAs(asks, long), false, store.Freed)
			} else {
				other.excluded(asks)
			}
			if !p.renew(r) {
				w.Errorf("%+v lost the lock to %+v", holds, asks)
			}
			p.release(r, false, store.Freed)
			w.mustBeEmpty("the releases")
		}
	}
}

// kindsHandOverInOrder has each group enter when the whole one before has left.
func kindsHandOverInOrder(w *world) {
	p, e := w.open(), w.open().listen()
	holds := p.take(long)
	var groups [][]store.Ref
	for _, group := range [][]store.Kind{
		{reader, reader}, {permit(3), permit(3), permit(3)}, {reader}, {writer}, {permit(2)}, {writer},
		{reader, reader}, {permit(2), permit(3)}, {writer}, {permit(3), permit(2)}, {reader},
	} {
		var refs []store.Ref
		for _, kind := range group {
			refs = append(refs, e.queueAs(kind))
		}
		groups = append(groups, refs)
	}
	p.release(holds, false, store.HandedOver)
	for i, group := range groups {
		for _, r := range group {
			e.hears(r)
		}
		e.heardNothing()
		for j, r := range group {
			want := store.Freed
			if j == len(group)-1 && i < len(groups)-1 {
				want = store.HandedOver
			}
			e.release(r, false, want)
		}
	}
	w.mustBeEmpty("the last release")
}

// theLastPermitMakesWayForReadersAlone: the readers behind it enter together,
// and the permit behind those does not enter with them.
func theLastPermitMakesWayForReadersAlone(w *world) {
	p, e := w.open(), w.open().listen()
	holds := p.takeAs(permit(2), long)
	a, b, next := e.queueAs(reader), e.queueAs(reader), e.queueAs(permit(2))
	p.release(holds, false, store.HandedOver)
	e.hears(a)
	e.hears(b)
	e.mustNotGet(next, store.Wait)
	e.heardNothing()
	e.release(a, false, store.Freed)
	e.release(b, false, store.HandedOver)
	e.hears(next)
}

func nothingStaysOfKinds(w *world) {
	p, other := w.open(), w.open()
	for _, holds := range kinds {
		for _, order := range permutations([]int{0, 1, 2, 3}) {
			refs := []store.Ref{p.takeAs(holds, long)}
			for _, kind := range []store.Kind{writer, permit(2), reader} {
				r := other.as(kind, long)
				other.ask(r, store.Wait) // granted or not
				refs = append(refs, r)
			}
			for _, i := range order {
				p.leave(refs[i], true)
			}
			w.mustBeEmpty("leaving in any order")
		}
	}
}

func fencesIncreaseOverAllKinds(w *world) {
	seen := rising{world: w}
	p, e := w.open(), w.open().listen()
	for range 3 {
		for _, kind := range kinds {
			holds := p.as(kind, long)
			seen.add(p.mustGet(holds, store.Try).Fence, "a grant")
			held := []store.Ref{holds}
			if kind != writer {
				beside := p.as(kind, long)
				seen.add(p.mustGet(beside, store.Try).Fence, "a grant beside another")
				held = append(held, beside)
			}
			line := []store.Ref{e.queueAs(writer), e.queueAs(reader), e.queueAs(reader), e.queueAs(permit(2))}
			for _, r := range held {
				p.leave(r, false)
			}
			for i, r := range line {
				seen.add(e.hears(r).Fence, "a hand-over")
				if i != 1 { // the second reader comes with the first
					e.leave(r, false)
				} else {
					seen.add(e.hears(line[2]).Fence, "a hand-over to two")
					e.leave(line[1], false)
					e.leave(line[2], false)
					seen.add(e.hears(line[3]).Fence, "a hand-over")
					p.leave(line[3], false)
					break
				}
			}
		}
	}
	w.mustBeEmpty("the last release")
}
