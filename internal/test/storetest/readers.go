package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// The kinds of locks.
var (
	writer = store.Kind{}
	reader = store.Kind{Shared: true}
)

// readers is about holders that share the lock.
var readers = []test{
	{"ReadersHoldTogether", readersHoldTogether},
	{"AWriterExcludesReaders", aWriterExcludesReaders},
	{"EachReadersTTLIsItsOwn", eachReadersTTLIsItsOwn},
	{"TheLockEndsWithItsLastReader", theLockEndsWithItsLastReader},
	{"AReaderThatAsksAgainHoldsOnce", aReaderThatAsksAgainHoldsOnce},
	{"ARefusedReaderLeavesNothing", aRefusedReaderLeavesNothing},
	{"OnlyAReadersWholeTokenCounts", onlyAReadersWholeTokenCounts},
	{"ALostReaderIsNeitherRenewedNorReleased", aLostReaderIsNeitherRenewedNorReleased},
	{"ReadersWhoseKeyWasDeletedAreLost", readersWhoseKeyWasDeletedAreLost},
	{"NothingStaysBehindReaders", nothingStaysBehindReaders},
	{"NothingStaysForLongBehindReadersThatDie", nothingStaysForLongBehindReadersThatDie},
	{"ManyReadersAtOnceAreGranted", manyReadersAtOnceAreGranted},
}

func readersHoldTogether(w *world) {
	p, other := w.open(), w.open()
	var held []store.Ref
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		for _, by := range []*process{p, other} {
			r := by.as(reader, long)
			by.mustGet(r, join)
			held = append(held, r)
		}
	}
	for i, r := range held {
		other.excluded(writer)
		for _, holds := range held[i:] {
			if !p.renew(holds) {
				w.Errorf("after %d releases a reader was not renewed", i)
			}
		}
		p.release(r, i%2 == 0, store.Freed)
	}
	w.mustBeEmpty("the last reader's release")
	other.take(long)
}

func aWriterExcludesReaders(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	for _, by := range []*process{p, other} {
		by.excluded(reader)
	}
	w.mustHold(r.Token)
	p.release(r, false, store.Freed)
	other.takeAs(reader, long)
}

// eachReadersTTLIsItsOwn: one reader dies soon and another lives on.
func eachReadersTTLIsItsOwn(w *world) {
	p, other := w.open(), w.open()
	for _, ttls := range [][]time.Duration{{long, short}, {short, long}} {
		var lives, dies store.Ref
		for i, ttl := range ttls {
			r := []*process{p, other}[i].takeAs(reader, ttl)
			if ttl == long {
				lives = r
			} else {
				dies = r
			}
		}
		w.outlast(short)
		if p.renew(dies) {
			w.Errorf("TTLs %v: a reader was renewed that had died", ttls)
		}
		if !p.renew(lives) {
			w.Errorf("TTLs %v: one reader's death ended another's lease", ttls)
		}
		p.release(dies, false, store.NotHeld)
		other.excluded(writer)
		p.release(lives, false, store.Freed) // the dead one blocks nobody
		p.release(p.take(long), false, store.Freed)
		w.mustBeEmpty("the releases")
	}
}

func theLockEndsWithItsLastReader(w *world) {
	p, other := w.open(), w.open()
	half, quarter := long/2, long/4
	a := p.takeAs(reader, half)
	w.lasts(half, "one reader")
	b := other.takeAs(reader, long)
	w.lasts(long, "a second reader with more time")
	c := other.takeAs(reader, quarter)
	w.lasts(long, "a third reader with less time")
	if p.renew(a); !other.renew(c) {
		w.Error("Renew of a reader = false, want true")
	}
	w.lasts(long, "renewals of those with less time")
	other.release(b, false, store.Freed)
	w.lasts(half, "the release of the one with the most time")
	a.TTL = quarter // as a lease has that does not need its MinHold any more
	if !p.renew(a) {
		w.Error("Renew of a reader = false, want true")
	}
	w.lasts(quarter, "renewed for less")
	p.release(a, false, store.Freed)
	other.release(c, false, store.Freed)
	w.mustBeEmpty("the releases")
}

func aReaderThatAsksAgainHoldsOnce(w *world) {
	p, other := w.open(), w.open()
	alone := []store.Ref{p.as(reader, long)}
	for _, held := range [][]store.Ref{alone, {other.as(reader, long), p.as(reader, long)}} {
		var fences []int64
		for _, r := range held {
			fences = append(fences, p.mustGet(r, store.Try).Fence)
		}
		for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
			w.shorten()
			for i, r := range held {
				if got := p.mustGet(r, join).Fence; got != fences[i] {
					w.Errorf("Acquire(%s) again: fence %d, want %d as before", joins[join], got, fences[i])
				}
			}
			w.lasts(long, "asked again")
		}
		for _, r := range held {
			p.release(r, false, store.Freed)
		}
		w.mustBeEmpty("one release of each")
	}
}

func aRefusedReaderLeavesNothing(w *world) {
	holder, p := w.open(), w.open()
	for _, holds := range []store.Kind{writer, reader} {
		r := holder.takeAs(holds, long)
		before := len(w.keys())
		for _, join := range []store.Join{store.Try, store.Last} {
			kind := reader
			if holds == reader {
				kind = writer
			}
			p.mustNotGet(p.as(kind, long), join)
			if got := len(w.keys()); got != before {
				w.Errorf("%d keys after Acquire(%s), want %d as before: %v", got, joins[join], before, w.keys())
			}
		}
		holder.release(r, false, store.Freed)
		w.mustBeEmpty("the release")
	}
}

func onlyAReadersWholeTokenCounts(w *world) {
	p, other := w.open(), w.open()
	r, beside := p.takeAs(reader, long/2), other.takeAs(reader, long/4)
	others := append(forgeries(r), p.as(reader, long))
	for _, stranger := range others {
		stranger.TTL = long
		if p.renew(stranger) {
			w.Errorf("Renew with the token %q = true, want false", stranger.Token)
		}
		p.release(stranger, false, store.NotHeld)
		p.release(stranger, true, store.NotHeld)
		p.releaseStaying(stranger, short, store.NotHeld)
	}
	w.lasts(long/2, "strangers' questions")
	for _, held := range []store.Ref{r, beside} {
		if !p.renew(held) {
			w.Error("a stranger ended a reader's lease")
		}
		p.release(held, false, store.Freed)
		p.release(held, false, store.NotHeld) // once
		p.release(held, true, store.NotHeld)
	}
	w.mustBeEmpty("the releases")
}

func aLostReaderIsNeitherRenewedNorReleased(w *world) {
	p, other := w.open(), w.open()
	for _, next := range []store.Kind{writer, reader} {
		lost := p.takeAs(reader, short)
		w.outlast(short)
		for _, taken := range []bool{false, true} {
			var r store.Ref
			if taken {
				r = other.takeAs(next, long)
			}
			if p.renew(lost) {
				w.Errorf("taken %v: Renew of an expired reader = true, want false", taken)
			}
			p.release(lost, false, store.NotHeld)
			p.releaseStaying(lost, long, store.NotHeld)
			if taken {
				if !other.renew(r) {
					w.Error("a lost reader ended another's lease")
				}
				other.release(r, false, store.Freed)
			}
		}
		w.mustBeEmpty("the releases")
	}
}

func readersWhoseKeyWasDeletedAreLost(w *world) {
	p, other := w.open(), w.open()
	for _, next := range []store.Kind{writer, reader} {
		lost := []store.Ref{p.takeAs(reader, long), other.takeAs(reader, long)}
		w.drop()
		r := other.takeAs(next, long)
		for _, was := range lost {
			if p.renew(was) {
				w.Error("Renew of a reader whose key was deleted = true, want false")
			}
			p.release(was, false, store.NotHeld)
		}
		other.release(r, false, store.Freed)
		w.mustBeEmpty("the next one's release")
	}
}

func nothingStaysBehindReaders(w *world) {
	p, other := w.open(), w.open()
	for _, order := range permutations([]int{0, 1, 2}) {
		refs := []store.Ref{p.takeAs(reader, long), other.takeAs(reader, long/2), p.takeAs(reader, long/4)}
		for _, i := range order {
			p.release(refs[i], i == 1, store.Freed)
		}
		w.mustBeEmpty(fmt.Sprintf("releases in the order %v", order))
	}
}

// grace is how long the traces of a lock may outlive it that was not released.
const grace = 1500 * time.Millisecond

func nothingStaysForLongBehindReadersThatDie(w *world) {
	p, other := w.open(), w.open()
	p.takeAs(reader, short)
	other.takeAs(reader, short/2)
	w.outlast(short + grace)
	w.mustBeEmpty("the readers' deaths")
}

func manyReadersAtOnceAreGranted(w *world) {
	processes := []*process{w.open(), w.open()}
	refs := make([]store.Ref, 16)
	var wg sync.WaitGroup
	end := time.Now().Add(timeout)
	for i := range refs {
		p := processes[i%2]
		wg.Go(func() {
			refs[i] = p.as(reader, long)
			a, err := p.Acquire(w.Context(), store.Request{Ref: refs[i], Until: soon()})
			for w.tooLate(err) && time.Now().Before(end) {
				refs[i] = p.as(reader, long) // what gives back the last attempt is on its way
				a, err = p.Acquire(w.Context(), store.Request{Ref: refs[i], Until: soon()})
			}
			if err != nil || !a.Granted {
				w.Errorf("Acquire = %+v, %v, want a grant", a, err)
			}
		})
	}
	wg.Wait()
	processes[0].excluded(writer)
	for _, r := range refs {
		processes[0].release(r, false, store.Freed)
	}
	w.mustBeEmpty("the releases")
}
