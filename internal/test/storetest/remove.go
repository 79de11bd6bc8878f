package storetest

import (
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// removal is about many tokens that are removed in one exchange.
var removal = []test{
	{"RemoveTakesHoldersAndStrangers", removeTakesHoldersAndStrangers},
	{"RemoveTakesEachKind", removeTakesEachKind},
	{"RemoveOfNothingReturns", removeOfNothingReturns},
	{"ARemovalThatStaysKeepsTheLockTaken", removalStays},
}

// removalQueues is about those that stand in a queue.
var removalQueues = []test{
	{"RemoveTakesWaitersAndHandsOver", removeTakesWaitersAndHandsOver},
	{"ARemovalThatStaysTakesItsPlaceInTheQueue", removalThatStaysTakesItsPlace},
}

// remove removes all of refs, and insists on it.
func (p *process) remove(refs ...store.Ref) {
	p.Helper()
	p.removeStaying(0, refs...)
}

// removeStaying is remove of those whose locks stay taken.
func (p *process) removeStaying(stay time.Duration, refs ...store.Ref) {
	p.Helper()
	p.pass(time.Millisecond)
	batch := make([]store.Removal, len(refs))
	for i, r := range refs {
		batch[i] = store.Removal{Ref: r, Stay: stay}
	}
	p.insist("Remove", func() error {
		p.Remove(p.Context(), batch)
		for _, r := range batch {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
}

func removeTakesHoldersAndStrangers(w *world) {
	p, other := w.open(), w.open()
	const held = 50
	refs := make([]store.Ref, 0, held+2)
	for i := range held {
		r := store.Ref{Key: fmt.Sprint(lock, i), Token: p.NewToken(""), TTL: long}
		p.mustGet(r, store.Try)
		refs = append(refs, r)
	}
	kept := other.take(long)
	refs = append(refs, p.ref(long), store.Ref{Key: "nobody's", Token: p.NewToken(""), TTL: long})
	p.remove(refs...)
	w.mustHold(kept.Token)
	p.remove(refs...)
	w.mustHold(kept.Token)
	p.remove(kept) // whoever knows the token
	w.mustBeEmpty("the removal")
}

func removeTakesEachKind(w *world) {
	p := w.open()
	a, b := p.as(store.Kind{Shared: true}, long), p.as(store.Kind{Shared: true}, long)
	p.mustGet(a, store.Try)
	p.mustGet(b, store.Try)
	p.remove(a)
	p.excluded(store.Kind{})
	p.remove(b)
	w.mustBeEmpty("the removal of both readers")
}

func removeOfNothingReturns(w *world) { w.open().Remove(w.Context(), nil) }

// Whoever has given the lock back so is not at work any more, and another's lock is as it was.
func removalStays(w *world) {
	p, other := w.open(), w.open()
	for _, kind := range []store.Kind{writer, reader} {
		r := p.takeAs(kind, long)
		for range 2 { // asked again, it does the same
			p.removeStaying(long/2, r, p.as(kind, long))
			w.lasts(long/2, "a removal that stays")
			other.excluded(writer)
		}
		if p.renew(r) {
			w.Error("Renew after a removal that stays = true, want false")
		}
		p.remove(r)
		w.mustBeEmpty("the removal")

		p.removeStaying(short, p.takeAs(kind, long))
		w.outlast(short + grace)
		w.mustBeEmpty("the lock had stayed taken")
	}
	p.removeStaying(long, p.ref(long))
	w.mustBeEmpty("a removal that stays of one who has nothing")
}

func removalThatStaysTakesItsPlace(w *world) {
	holder, p, e := w.open(), w.open(), w.open().listen()
	r := holder.take(long)
	gone, next := p.queue(long), e.queue(long)
	p.removeStaying(long, gone)
	w.mustHold(r.Token)
	holder.release(r, false, store.HandedOver)
	e.hears(next)
	e.release(next, false, store.Freed)
	w.mustBeEmpty("the release")
}

func removeTakesWaitersAndHandsOver(w *world) {
	holder, p, e := w.open(), w.open().listen(), w.open().listen()
	r := holder.take(long)
	gone, next, last := p.queue(long), e.queue(long), p.queue(long)
	p.remove(gone)
	w.mustHold(r.Token)
	holder.remove(r)
	e.hears(next)
	w.mustHold(next.Token)
	e.remove(next)
	p.hears(last)
	own := p.queue(long)
	p.remove(last)
	p.hears(own) // by the reply: no message goes to the process that removes
	p.remove(own)
	w.mustBeEmpty("the last removal")
}
