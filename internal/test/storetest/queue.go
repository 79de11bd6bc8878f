package storetest

import (
	"fmt"

	"github.com/lockmw/kit/internal/store"
)

// queue is about tokens that stand in line.
var queue = []test{
	{"WaitersAreServedInTheOrderOfArrival", waitersAreServedInOrder},
	{"ASecondWaitKeepsTheOnePlace", aSecondWaitKeepsTheOnePlace},
	{"ANewcomerNeverOvertakes", aNewcomerNeverOvertakes},
	{"AReleaseByAStrangerServesTheQueueOfAFreeLock", aStrangersReleaseServesTheQueue},
	{"AReleaseByAStrangerChangesNothing", aStrangersReleaseChangesNothing},
	{"LastLeavesTheQueue", lastLeavesTheQueue},
	{"LastIsGrantedInItsTurn", lastIsGrantedInItsTurn},
	{"AWaiterThatLeavesIsNotServed", aWaiterThatLeavesIsNotServed},
	{"AReleaseWithoutLeaveKeepsThePlace", aReleaseWithoutLeaveKeepsThePlace},
	{"AHolderMayLeave", aHolderMayLeave},
	{"NothingStaysInWhicheverOrderTheyLeave", nothingStaysInWhicheverOrder},
	{"AWaiterSeesThatItsSiblingHolds", aWaiterSeesItsSibling},
	{"AWaiterSeesThatItsSiblingWasServedInItsPlace", aWaiterSeesItsSiblingServed},
	{"FreshSaysThatTheProcessWasUnknown", freshSaysUnknown},
}

func waitersAreServedInOrder(w *world) {
	holder := w.open()
	ears := []*ear{w.open().listen(), w.open().listen()}
	r := holder.take(long)
	var line []store.Ref
	owners := []int{0, 0, 1, 0, 1, 1, 1, 0, 1, 0}
	for _, owner := range owners {
		line = append(line, ears[owner].queue(long))
	}
	holder.release(r, false, store.HandedOver)
	for i, r := range line {
		e := ears[owners[i]]
		e.hears(r)
		w.mustHold(r.Token)
		want := store.HandedOver
		if i == len(line)-1 {
			want = store.Freed
		}
		e.release(r, false, want)
	}
	w.mustBeEmpty("the last release")
}

func aSecondWaitKeepsTheOnePlace(w *world) {
	holder, e := w.open(), w.open().listen()
	r := holder.take(long)
	a, b := e.queue(long), e.queue(long)
	for _, again := range []store.Ref{b, a, a, b} {
		e.mustNotGet(again, store.Wait)
	}
	holder.release(r, false, store.HandedOver)
	e.hears(a)
	e.release(a, false, store.HandedOver)
	e.hears(b)
	e.release(b, false, store.Freed) // nobody stands there twice
	w.mustBeEmpty("the last release")
}

// aNewcomerNeverOvertakes has the holder vanish without a release, which is
// when a newcomer finds the lock free and others in the queue.
func aNewcomerNeverOvertakes(w *world) {
	vanish := map[string]func(holder *process, held store.Ref){
		"expired": func(holder *process, held store.Ref) { // only now: it held until the others were in the queue
			held.TTL = short
			if !holder.renew(held) {
				w.Error("the lock was lost before it expired")
			}
			w.awaitExpiry()
		},
		"deleted": func(*process, store.Ref) { w.drop() },
	}
	holder, polls, e, newcomer := w.open(), w.open(), w.open().listen(), w.open()
	for how, vanishes := range vanish {
		for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
			for _, listens := range []bool{false, true} {
				after := fmt.Sprintf("Acquire(%s) of a lock that was %s", joins[join], how)
				held := holder.take(long)
				waits := polls
				if listens {
					waits = e.process
				}
				first, second := waits.queue(long), waits.queue(long)
				vanishes(holder, held)

				late := newcomer.ref(long)
				if a := newcomer.mustNotGet(late, join); a.Left <= 0 || a.Left > firstTTL {
					w.Errorf("%s: Left = %v, want at most %v", after, a.Left, firstTTL)
				}
				w.mustHold(first.Token)
				if listens {
					e.hears(first)
				}
				waits.mustGet(first, store.Wait)
				waits.release(first, false, store.HandedOver)
				if listens {
					e.hears(second)
				}
				waits.mustGet(second, store.Wait)
				if join == store.Wait {
					waits.release(second, false, store.HandedOver)
					w.mustHold(late.Token)
					newcomer.release(late, false, store.Freed)
				} else {
					waits.release(second, false, store.Freed)
				}
				w.mustBeEmpty(after)
			}
		}
	}
}

func aStrangersReleaseServesTheQueue(w *world) {
	holder, e, stranger := w.open(), w.open().listen(), w.open()
	holder.take(long)
	r := e.queue(long)
	w.drop()
	stranger.release(stranger.ref(long), false, store.NotHeld)
	e.hears(r)
	w.mustHold(r.Token)
}

func aStrangersReleaseChangesNothing(w *world) {
	holder, e, stranger := w.open(), w.open().listen(), w.open()
	r := holder.take(long)
	waits := e.queue(long)
	for _, leave := range []bool{false, true} {
		stranger.release(stranger.ref(long), leave, store.NotHeld)
	}
	w.mustHold(r.Token)
	holder.release(r, false, store.HandedOver)
	e.hears(waits)
}

func lastLeavesTheQueue(w *world) {
	holder, e := w.open(), w.open().listen()
	r := holder.take(long)
	a, b := e.queue(long), e.queue(long)
	for range 2 {
		e.mustNotGet(a, store.Last)
	}
	holder.release(r, false, store.HandedOver)
	e.hears(b)
	e.release(b, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func lastIsGrantedInItsTurn(w *world) {
	holder, p, other := w.open(), w.open(), w.open()
	holder.take(long)
	a, b, c := p.queue(long), other.queue(long), p.queue(long)
	w.drop()
	other.mustNotGet(b, store.Last)
	w.mustHold(a.Token)
	p.mustGet(a, store.Last)
	w.drop()
	p.mustGet(c, store.Last)
	p.release(c, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func aWaiterThatLeavesIsNotServed(w *world) {
	holder, e := w.open(), w.open().listen()
	r := holder.take(long)
	a, b := e.queue(long), e.queue(long)
	for range 2 {
		e.release(a, true, store.NotHeld)
	}
	w.mustHold(r.Token)
	holder.release(r, false, store.HandedOver)
	e.hears(b)
	e.release(b, true, store.Freed)
	e.release(b, true, store.NotHeld)
	w.mustBeEmpty("the last one has left")
}

func aReleaseWithoutLeaveKeepsThePlace(w *world) {
	holder, e := w.open(), w.open().listen()
	r := holder.take(long)
	a, b := e.queue(long), e.queue(long)
	e.release(a, false, store.NotHeld)
	holder.release(r, false, store.HandedOver)
	e.hears(a)
	e.release(a, false, store.HandedOver)
	e.hears(b)
}

func aHolderMayLeave(w *world) {
	holder, e := w.open(), w.open().listen()
	r := holder.take(long)
	a, b := e.queue(long), e.queue(long)
	holder.release(r, true, store.HandedOver)
	e.hears(a)
	holder.release(r, true, store.NotHeld) // the lock is a's now
	w.mustHold(a.Token)
	e.release(a, true, store.HandedOver)
	e.hears(b)
	e.release(b, true, store.Freed)
	w.mustBeEmpty("the last one has left")
}

// nothingStaysInWhicheverOrder has a holder and three waiters of two
// processes leave in each of the 24 orders, as a process does that gives up.
func nothingStaysInWhicheverOrder(w *world) {
	p, other := w.open(), w.open()
	ways := map[string]func() (end func()){
		"polling": func() func() { return func() {} },
		"listening": func() func() {
			a, b := p.listen(), other.listen()
			return func() { a.deafen(); b.deafen() }
		},
	}
	for way, begin := range ways {
		for _, order := range permutations([]int{0, 1, 2, 3}) {
			end := begin()
			refs := []store.Ref{p.take(long), other.queue(long), p.queue(long), other.queue(long)}
			for _, i := range order {
				p.leave(refs[i], true) // the token is all it takes
			}
			w.mustBeEmpty(fmt.Sprintf("%s, leaving in the order %v", way, order))
			end()
		}
	}
}

func permutations(of []int) [][]int {
	if len(of) == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for i, first := range of {
		rest := append(append([]int{}, of[:i]...), of[i+1:]...)
		for _, p := range permutations(rest) {
			all = append(all, append([]int{first}, p...))
		}
	}
	return all
}

func aWaiterSeesItsSibling(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		if a := p.mustNotGet(p.ref(long), join); a.Siblings != r.Token {
			w.Errorf("Acquire(%s): Siblings = %q, want the holder %q", joins[join], a.Siblings, r.Token)
		}
		if a := other.mustNotGet(other.ref(long), join); a.Siblings != "" {
			w.Errorf("Acquire(%s) of another process: Siblings = %q, want none", joins[join], a.Siblings)
		}
	}
}

// aWaiterSeesItsSiblingServed: the very question that finds the lock free
// has it granted to the one in front.
func aWaiterSeesItsSiblingServed(w *world) {
	holder, p, other := w.open(), w.open(), w.open()
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		for _, asks := range []*process{p, other} {
			holder.take(long)
			first := p.queue(long)
			w.drop()
			want := ""
			if asks == p {
				want = first.Token
			}
			r := asks.ref(long)
			if a := asks.mustNotGet(r, join); a.Siblings != want {
				w.Errorf("Acquire(%s): Siblings = %q, want %q", joins[join], a.Siblings, want)
			}
			asks.leave(r, true)
			p.release(first, true, store.Freed)
		}
	}
}

func freshSaysUnknown(w *world) {
	holder, p, other := w.open(), w.open(), w.open()
	holder.take(long)
	a, b, c := p.ref(long), p.ref(long), other.ref(long)
	fresh := func(p *process, r store.Ref, want bool, when string) {
		w.Helper()
		if got := p.mustNotGet(r, store.Wait).Fresh; got != want {
			w.Errorf("%s: Fresh = %v, want %v", when, got, want)
		}
	}
	fresh(p, a, true, "first question of a process")
	fresh(p, a, false, "second question of a waiter")
	fresh(p, b, false, "first question of a second waiter")
	fresh(other, c, true, "first question of another process")
	w.wipe()
	holder.take(long)
	fresh(p, b, true, "after the queue was lost")
	fresh(p, a, false, "second question after the queue was lost")
	fresh(other, c, true, "another process, after the queue was lost")
}
