package lockmw

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// cohort returns a lease of the lock k, and n who wait behind it.
func cohort(t *testing.T, n int) (ws *waiters, cover *Lease, behind []*waiter) {
	t.Helper()
	ws = newWaiters(10, 10, true)
	first, local, _ := ws.join(store.Ref{Key: "k", Token: "holder"})
	cover = &Lease{ref: first.ref}
	ws.asks(first)
	ws.heard(first, time.Now(), time.Now(), serverClock{now(), 1}, sighting{}, false)
	ws.leave(first, cover)
	for i := range n {
		w, ok, _ := ws.join(store.Ref{Key: "k", Token: fmt.Sprint(i)})
		if local || !ok {
			t.Fatal("the first must ask Redis, and nobody else")
		}
		behind = append(behind, w)
	}
	return ws, cover, behind
}

// Redis may carry out a release before the question of a waiter that is under
// way: then it has not heard of it, and the release must tell.
func TestAReleaseTellsOfAWaiterThatAsksJustThen(t *testing.T) {
	ws, cover, w := cohort(t, 2)
	ws.asks(w[0])
	next, place, ok := ws.pass(cover)
	if !ok || next.Token != "0" || place.Behind != 1 {
		t.Errorf("pass = %v, %+v, %t", next, place, ok)
	}

	ws, cover, w = cohort(t, 2)
	ws.asks(w[0])
	ws.heard(w[0], time.Now(), time.Now(), serverClock{now(), 1}, sighting{}, true)
	if next, _, ok := ws.pass(cover); ok {
		t.Errorf("%v is told of twice", next)
	}
}

func TestALineWithoutAnAnswerSinceOneOfItCame(t *testing.T) {
	ws, cover, w := cohort(t, 2)
	ws.uncover(cover)
	ws.asks(w[0])
	if !ws.unanswered(w[1]) {
		t.Error("the question of the first is under way, and nothing was heard since the other came")
	}
	ws.unheard(w[0])
	if ws.unanswered(w[1]) {
		t.Error("no question is under way")
	}
	ws.asks(w[0])
	ws.heard(w[0], time.Now(), time.Now(), serverClock{now(), 1}, sighting{}, true)
	ws.asks(w[0])
	if ws.unanswered(w[1]) {
		t.Error("the line was heard of since the other came")
	}
}

// Readers in front of a writer are no work for those who come and go behind them.
func TestTheFirstOfACohortIsKnown(t *testing.T) {
	ws := newWaiters(100, 100, true)
	var all []*waiter
	for i := range 40 {
		w, _, _ := ws.join(store.Ref{Key: "k", Token: fmt.Sprint(i), Kind: store.Kind{Shared: i%3 != 0}})
		all = append(all, w)
	}
	for _, i := range []int{3, 0, 1, 6, 2, 9, 39, 12, 4, 5, 7, 15, 18, 21, 24, 27, 30, 33, 36} {
		ws.leave(all[i], nil)
		all[i] = nil
		var want *waiter
		for n, w := range slices.Backward(all) {
			if w != nil && n%3 == 0 {
				want = w
			}
		}
		if got := ws.lines["k"].plain; got != want {
			t.Fatalf("without %d: %v, want %v", i, got, want)
		}
	}
}

// A release whose answer is lost leaves it open whether Redis knows of the waiter. But
// nothing more comes of it, so nobody whose time is up waits for that.
func TestALostAnswerOfAReleaseIsNotWaitedFor(t *testing.T) {
	ws, cover, w := cohort(t, 1)
	next, _, ok := ws.pass(cover)
	if !ok || ws.standing(w[0]) != offered {
		t.Fatalf("passed on: %t, standing %d", ok, ws.standing(w[0]))
	}
	if gone := ws.passedOn(next, now(), store.NotHeld, store.Answer{}, timedOut); gone {
		t.Fatal("it waits no more")
	}
	if got := ws.standing(w[0]); got != exposed {
		t.Errorf("standing %d, want %d", got, exposed)
	}
	if told, sure := ws.leave(w[0], nil); !told || sure {
		t.Errorf("told %t, sure %t: Redis may know of it", told, sure)
	}
}
