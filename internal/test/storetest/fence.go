package storetest

import "github.com/lockmw/kit/internal/store"

// fences is about the fences of a lock's grants.
var fences = []test{
	{"FencesIncreaseFromReleaseToGrant", fencesIncreaseAfterReleases},
	{"FencesIncreaseAcrossExpiry", fencesIncreaseAcrossExpiry},
	{"FencesIncreaseAcrossALossOfAllData", fencesIncreaseAcrossALoss},
	{"FencesIncreaseAcrossForeignDeletion", fencesIncreaseAcrossDeletion},
	{"TheLockTellsItsFence", theLockTellsItsFence},
	{"FencesIncreaseAcrossForcedReleases", fencesIncreaseAcrossForce},
}

// queueFences is about fences of grants to waiters.
var queueFences = []test{
	{"FencesIncreaseAcrossHandOvers", fencesIncreaseAcrossHandOvers},
	{"AReaskOfAGrantGivesItsFence", aReaskOfAGrantGivesItsFence},
	{"AReaskKeepsTheLockFromThoseWhoCameLater", aReaskKeepsTheLock},
}

// A rising collects fences, each of which must be higher than the last.
type rising struct {
	*world
	last int64
}

func (f *rising) add(fence int64, when string) {
	f.Helper()
	if fence <= f.last {
		f.Errorf("%s: fence %d after %d, want a higher one", when, fence, f.last)
	}
	f.last = fence
}

func fencesIncreaseAfterReleases(w *world) {
	seen := rising{world: w}
	processes := []*process{w.open(), w.open()}
	for i := range 60 {
		p := processes[i%2]
		r := p.ref(long)
		seen.add(p.mustGet(r, store.Try).Fence, "after a release")
		p.release(r, false, store.Freed)
	}
}

func fencesIncreaseAcrossExpiry(w *world) {
	seen := rising{world: w}
	processes := []*process{w.open(), w.open()}
	for i := range 3 {
		p := processes[i%2]
		seen.add(p.mustGet(p.ref(short), store.Try).Fence, "after expiry")
		w.awaitExpiry()
	}
}

func fencesIncreaseAcrossALoss(w *world) {
	seen := rising{world: w}
	p := w.open()
	for range 50 {
		seen.add(p.mustGet(p.ref(long), store.Try).Fence, "after a loss of all data")
		w.wipe()
	}
}

func fencesIncreaseAcrossDeletion(w *world) {
	seen := rising{world: w}
	p := w.open()
	for range 50 {
		seen.add(p.mustGet(p.ref(long), store.Try).Fence, "after a foreign DEL")
		w.drop()
	}
}

// fencesIncreaseAcrossForce has the lock taken from one holder after the other. What they
// do with their fences then, the next one's is higher.
func fencesIncreaseAcrossForce(w *world) {
	seen := rising{world: w}
	p, other := w.open(), w.open()
	for range 20 {
		r := p.ref(long)
		Note(&r, p.mustGet(r, store.Try))
		seen.add(r.Fence, "after a forced release")
		if err := other.ForceRelease(w.Context(), lock, store.Intervention{}); err != nil {
			w.Fatal(err)
		}
		next := other.ref(long)
		Note(&next, other.mustGet(next, store.Try))
		seen.add(next.Fence, "after a forced release")
		if p.renew(r) {
			w.Error("renewed a lock that was taken away")
		}
		p.release(r, false, store.NotHeld)
		other.release(next, false, store.Freed)
	}
}

// theLockTellsItsFence: everything was lost but the lock.
func theLockTellsItsFence(w *world) {
	p := w.open()
	r := p.ref(long)
	fence := p.mustGet(r, store.Try).Fence
	for _, node := range w.keyspace.Nodes {
		for name := range w.keysOf(node) {
			if name == w.keyspace.Key(lock) {
				continue
			}
			if err := node.Del(w.Context(), name).Err(); err != nil {
				w.Fatal(err)
			}
		}
	}
	if again := p.mustGet(r, store.Try).Fence; again < fence {
		w.Errorf("asked again: fence %d, want %d as before, or a higher one", again, fence)
	}
	p.release(r, false, store.Freed)
	w.mustBeEmpty("the release")
}

func fencesIncreaseAcrossHandOvers(w *world) {
	const n = 20
	seen := rising{world: w}
	holder, polls, e := w.open(), w.open(), w.open().listen()
	r := holder.ref(long)
	seen.add(holder.mustGet(r, store.Try).Fence, "first grant")
	for i := range n {
		var next store.Ref
		if i%2 == 0 {
			next = e.queue(long)
			holder.release(r, false, store.HandedOver)
			seen.add(e.hears(next).Fence, "grant by message")
		} else {
			next = polls.queue(long)
			holder.release(r, false, store.HandedOver)
			seen.add(polls.mustGet(next, store.Wait).Fence, "grant found by asking")
		}
		r = next
	}
}

func aReaskOfAGrantGivesItsFence(w *world) {
	holder, e := w.open(), w.open().listen()
	r := holder.take(long)
	waits := e.queue(long)
	holder.release(r, false, store.HandedOver)
	fence := e.hears(waits).Fence
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		if got := e.mustGet(waits, join).Fence; got != fence {
			w.Errorf("Acquire(%s): fence %d, want %d as in the message", joins[join], got, fence)
		}
		if !e.renew(waits) {
			w.Error("Renew = false, want true")
		}
	}
}

// aReaskKeepsTheLock: a holder that asks again, with its fence or because it lost the
// reply that told it, came before those who wait by then.
func aReaskKeepsTheLock(w *world) {
	p, other := w.open(), w.open()
	p.release(p.take(long), false, store.Freed) // the first questions of a process may be put otherwise
	for _, told := range []bool{true, false} {
		for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
			r := p.ref(long)
			fence := p.mustGet(r, store.Try).Fence
			if told {
				r.Fence = fence
			}
			waits := other.queue(long)
			for range 2 {
				again := p.mustGet(r, join).Fence
				if again < fence || told && again != fence {
					w.Errorf("Acquire(%s), told %v: fence %d after %d", joins[join], told, again, fence)
				}
				fence = again
			}
			other.mustNotGet(waits, store.Wait)
			r.Fence = fence
			if !p.renew(r) {
				w.Error("Renew = false, want true")
			}
			p.release(r, false, store.HandedOver)
			if next := other.mustGet(waits, store.Wait).Fence; next <= fence {
				w.Errorf("fence %d after %d, want a higher one", next, fence)
			}
			other.release(waits, true, store.Freed)
			w.wipe() // the next round begins with a lock that nobody knows
		}
	}
}
