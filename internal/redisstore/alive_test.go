package redisstore

import (
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Waiters that come within one microsecond, or while the clock steps back,
// keep the order in which they came.
func TestTheOrderOfArrivalDoesNotHangOnTheClock(t *testing.T) {
	s := newStill(t)
	a, b := s.open(), s.open()
	holder := a.ref(time.Minute)
	a.get(holder, store.Try)
	type place struct {
		p *probe
		r store.Ref
	}
	var line []place
	for i, step := range []time.Duration{0, 0, 0, time.Microsecond, 0, -time.Second, 0, 3 * time.Microsecond, -time.Hour, 0} {
		s.advance(step)
		p := []*probe{a, b}[i%2]
		r := p.ref(time.Minute)
		p.refused(r, store.Wait)
		line = append(line, place{p, r})
	}
	last := holder
	for i, next := range line {
		a.release(last, false, store.HandedOver)
		next.p.get(next.r, store.Wait)
		if t.Failed() {
			t.Fatalf("at place %d", i)
		}
		last = next.r
	}
	a.release(last, false, store.Freed)
}

func TestAProcessThatStoppedAskingLosesItsPlaces(t *testing.T) {
	for silence, want := range map[time.Duration]store.Released{
		lives - time.Microsecond: store.HandedOver,
		lives + time.Microsecond: store.Freed,
	} {
		s := newStill(t)
		holder, dead := s.open(), s.open()
		r := holder.ref(time.Minute)
		holder.get(r, store.Try)
		dead.refused(dead.ref(time.Minute), store.Wait)
		dead.refused(dead.ref(time.Minute), store.Wait)
		s.advance(silence)
		if got := holder.leave(r, false); got != want {
			t.Errorf("after a silence of %v: Release = %v, want %v", silence, got, want)
		}
		if want == store.Freed {
			s.wantEmpty()
		}
	}
}

func TestOneQuestionKeepsAllPlacesOfItsProcess(t *testing.T) {
	s := newStill(t)
	holder, p := s.open(), s.open()
	r := holder.ref(time.Minute)
	holder.get(r, store.Try)
	a, b := p.ref(time.Minute), p.ref(time.Minute)
	p.refused(a, store.Wait)
	p.refused(b, store.Wait)
	for range 10 {
		s.advance(lives - time.Millisecond)
		p.refused(a, store.Wait)
	}
	holder.release(r, false, store.HandedOver)
	p.get(a, store.Wait)
	p.release(a, false, store.HandedOver)
	p.get(b, store.Wait)
}

// A locker that slept longer than its places lasted must learn that they are
// gone: only one of its waiters asks, and tells the others when it is Fresh.
func TestAProcessThatLostItsPlacesIsFresh(t *testing.T) {
	s := newStill(t)
	holder, slept, awake := s.open(), s.open(), s.open()
	r := holder.ref(time.Minute)
	holder.get(r, store.Try)
	a, b := slept.ref(time.Minute), slept.ref(time.Minute)
	slept.refused(a, store.Wait)
	slept.refused(b, store.Wait)
	s.advance(lives + time.Second)
	c := awake.ref(time.Minute)
	awake.refused(c, store.Wait)
	holder.release(r, false, store.HandedOver)
	awake.get(c, store.Wait) // the places of slept are gone
	if !slept.refused(a, store.Wait).Fresh {
		t.Error("Fresh = false, want true: no place of the locker was left")
	}
	awake.release(c, false, store.HandedOver)
	slept.get(a, store.Wait)
	slept.release(a, false, store.Freed)
}

// A locker that is not heard keeps its places, but not for as long as one
// that may be: nobody may be left who would ask.
func TestADeafProcessKeepsItsPlacesForAWhile(t *testing.T) {
	for silence, want := range map[time.Duration]store.Released{
		deaf - time.Microsecond: store.HandedOver,
		deaf + time.Microsecond: store.Freed,
	} {
		s := newStill(t)
		holder, silent := s.open(), s.open()
		r, again := holder.ref(time.Minute), holder.ref(time.Minute)
		holder.get(r, store.Try)
		silent.subscribed.Store(true) // so it says, but its connection is gone
		silent.refused(silent.ref(time.Minute), store.Wait)
		holder.release(r, false, store.Freed)
		holder.get(again, store.Try)

		s.advance(silence)
		silent.hear() // on this server now, without a question
		if got := holder.leave(again, false); got != want {
			t.Errorf("%v after it was not heard: Release = %v, want %v", silence, got, want)
		}
	}
}

// Being passed over again does not give a deaf locker more time.
func TestADeafProcessIsNotGivenMoreTimeByReleases(t *testing.T) {
	s := newStill(t)
	holder, silent := s.open(), s.open()
	r := holder.ref(time.Minute)
	holder.get(r, store.Try)
	silent.subscribed.Store(true)
	silent.refused(silent.ref(time.Minute), store.Wait)
	for range 4 {
		holder.release(r, false, store.Freed)
		s.advance(deaf / 3)
		holder.get(r, store.Try)
	}
	s.advance(time.Microsecond)
	holder.release(r, false, store.Freed)
	s.wantEmpty()
}

func TestAnUntouchedQueueIsForgotten(t *testing.T) {
	s := newStill(t)
	holder, dead := s.open(), s.open()
	holder.get(holder.ref(5*time.Second), store.Try)
	dead.refused(dead.ref(time.Minute), store.Wait)
	s.advance(10 * time.Second)
	s.wantEmpty()
}

func TestAPlaceOfADeafProcessIsForgotten(t *testing.T) {
	s := newStill(t)
	holder, dead := s.open(), s.open()
	r := holder.ref(5 * time.Second)
	holder.get(r, store.Try)
	dead.subscribed.Store(true)
	dead.refused(dead.ref(time.Minute), store.Wait)
	holder.release(r, false, store.Freed)
	s.advance(2 * time.Minute)
	s.wantEmpty()
}

// The last waiter that leaves takes along what was noted of its locker; that
// lay there for ten seconds once, as long as the lock was held.
func TestTheLastWaiterLeavesNothingBehind(t *testing.T) {
	for name, leave := range map[string]func(p *probe, r store.Ref){
		"release": func(p *probe, r store.Ref) { p.release(r, true, store.NotHeld) },
		"last":    func(p *probe, r store.Ref) { p.refused(r, store.Last) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStill(t)
			holder, p, other := s.open(), s.open(), s.open()
			r := holder.ref(time.Minute)
			holder.get(r, store.Try)
			first, second := p.ref(time.Minute), other.ref(time.Minute)
			p.refused(first, store.Wait)
			other.refused(second, store.Wait)
			leave(p, first)
			s.wantTTLs(60_000, 10_000, 10_000, 0) // the second one waits
			leave(other, second)
			s.wantTTLs(60_000, 0, 0, 0)
		})
	}
}
