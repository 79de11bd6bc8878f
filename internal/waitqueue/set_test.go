package waitqueue

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
)

// A clock's answer is about a moment between the command and its answer, and the clocks'
// rates differ.
func TestAGrantsAgeIsNeverUnderestimated(t *testing.T) {
	var none Clock
	if _, ok := none.Since(1); ok {
		t.Error("an age was given without having heard from the store")
	}
	sent := time.Now().Add(-time.Minute)
	c := Clock{sent, 1_000_000_000}
	for _, tc := range []struct {
		name  string
		grant int64 // µs of the store's clock after it was heard
		want  time.Duration
	}{
		{"granted later", 10_000_000, 9900 * time.Millisecond},
		{"granted before the clock was last heard", -10_000_000, -10100 * time.Millisecond},
	} {
		got, ok := c.Since(c.Server + tc.grant)
		if !ok || got.Sub(sent) != tc.want {
			t.Errorf("%s: counts from %v after the command, want %v", tc.name, got.Sub(sent), tc.want)
		}
	}
	if _, ok := c.Since(c.Server + int64(time.Hour/time.Microsecond)); ok {
		t.Error("a grant from the future was believed: another server's clock")
	}
}

// What a queue has heard is forgotten when its waiters may talk to another server.
func TestANewSubscriptionForgetsTheClock(t *testing.T) {
	s := newSet(10, 10)
	w := s.Join(store.Ref{Key: "k", Token: "w"}, Caller{}, true).Waiter
	s.Answered(w, Answer{Sent: time.Now(), Clock: 1_000_000_000, Queued: true})
	s.AskFirsts()
	if !s.Granted(store.News{Ref: store.Ref{Key: "k", Token: "w"}, Grant: store.Grant{Clock: 1_000_000_000}}) {
		t.Fatal("it waits")
	}
	if g := <-w.Grants; !g.Since.IsZero() {
		t.Error("the clock of a former subscription was believed")
	}
}

// A message about a token that had the key before takes nothing from what is known of the
// one that has it now, however late it comes.
func TestALateMessageAboutAnOlderHolder(t *testing.T) {
	s := newSet(10, 10)
	w := s.Join(store.Ref{Key: "k", Token: "now", TTL: time.Second}, Caller{}, true).Waiter
	s.Take(w, "the lease", 0, &Answer{Sent: time.Now(), Clock: 1_000_000_000})
	if !s.Join(store.Ref{Key: "k", TTL: time.Second}, Caller{}, true).Rests {
		t.Fatal("it does not rest behind one of its process")
	}
	s.OthersWait("k", "now", 999_999_000) // came before the one that rests
	s.OthersWait("k", "earlier", 999_000_000)
	if s.PassOn("k", "the lease", Grant{Token: "now", TTL: time.Second}) {
		t.Error("the key passes on to one that came after another process's")
	}
}

func newSet(perKey, total int) *Set {
	var mu sync.Mutex
	n := 0
	return NewSet(perKey, total, true, func(string) string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprint("made", n)
	})
}

func TestASetHasRoomForSoMany(t *testing.T) {
	s := newSet(2, 3)
	ref := func(key string) store.Ref { return store.Ref{Key: key} }
	a, b := s.Join(ref("k"), Caller{}, true), s.Join(ref("k"), Caller{}, true)
	if a.Waiter == nil || b.Waiter == nil || s.Join(ref("k"), Caller{}, true).Waiter != nil {
		t.Error("there is room for two of a key")
	}
	c := s.Join(ref("l"), Caller{}, true)
	if c.Waiter == nil || s.Join(ref("m"), Caller{}, true).Waiter != nil {
		t.Error("there is room for three in all")
	}
	s.Leave(a.Waiter)
	if s.Join(ref("m"), Caller{}, true).Waiter == nil {
		t.Error("whoever leaves makes room")
	}
}

// A queue in which nothing was answered since one of it came.
func TestAQueueOfWhichNothingIsKnown(t *testing.T) {
	s := newSet(10, 10)
	ref := store.Ref{Key: "k"}
	first, second := s.Join(ref, Caller{}, true).Waiter, s.Join(ref, Caller{}, true).Waiter
	if !s.Look(second).Unanswered {
		t.Error("the command of the first is under way, and nothing was heard since the other came")
	}
	s.Unanswered(first)
	if s.Look(second).Unanswered {
		t.Error("no command is under way")
	}
	s.Ask(first)
	s.Answered(first, Answer{Sent: time.Now(), Clock: 1, Queued: true})
	s.Ask(first)
	if s.Look(second).Unanswered {
		t.Error("an answer has come since")
	}
}

// Who leaves in the middle of a command, as a panic has it, takes the command along: nothing comes of it any more.
func TestACommandOfOneWhoLeftIsNotUnderWay(t *testing.T) {
	s := newSet(10, 10)
	ref := store.Ref{Key: "k"}
	joined, asked, last := s.Join(ref, Caller{}, true).Waiter, s.Join(ref, Caller{}, true).Waiter, s.Join(ref, Caller{}, true).Waiter
	s.Ask(asked)
	s.Leave(joined)
	if !s.Look(last).Unanswered {
		t.Error("a command is under way still")
	}
	s.Leave(asked)
	if s.Look(last).Unanswered {
		t.Error("no command is under way")
	}
	again := s.Join(ref, Caller{}, false).Waiter // one of those that have left
	s.Ask(last)
	s.Leave(again)
	if !s.Look(last).Unanswered {
		t.Error("the command of another has gone with one who sent none")
	}
}

// One to whom the lock was passed on leaves without it, as a panic has it: whoever has had the grant sees to the lock.
func TestOneWhoseGrantWasTakenLeaves(t *testing.T) {
	s, w := behind(t, 1)
	if !s.PassOn("k", "holder", Grant{Grant: store.Grant{Fence: 2}}) {
		t.Fatal("not passed on")
	}
	<-w[0].Grants
	left := make(chan Left, 1)
	go func() { left <- s.Leave(w[0]) }()
	if got := await.Receive(t, "it has left", left); got != (Left{State: Gone}) {
		t.Errorf("Leave = %+v", got)
	}
	if !s.Join(store.Ref{Key: "k"}, Caller{}, true).Rests {
		t.Error("the next one does not rest")
	}
}

// Readers in front of a writer are no work for those who come and go behind them.
func TestTheFirstThatWantsTheKeyAloneIsKnown(t *testing.T) {
	s := newSet(100, 100)
	var all []*Waiter
	for i := range 40 {
		all = append(all, s.Join(store.Ref{Key: "k", Kind: store.Kind{Shared: i%3 != 0}}, Caller{}, false).Waiter)
	}
	for _, i := range []int{3, 0, 1, 6, 2, 9, 39, 12, 4, 5, 7, 15, 18, 21, 24, 27, 30, 33, 36} {
		s.Leave(all[i])
		all[i] = nil
		var want *Waiter
		for n, w := range slices.Backward(all) {
			if w != nil && n%3 == 0 {
				want = w
			}
		}
		var got *Waiter
		if e := s.of("k").queues["k"].firstAlone; e != nil {
			got = at(e)
		}
		if got != want {
			t.Fatalf("without %d: %v, want %v", i, got, want)
		}
	}
}

// Goroutines of several keys take turns as lockmw does. Each key has one holder at a
// time, nobody is forgotten, and nothing is left.
func TestTurnsOnSeveralKeys(t *testing.T) {
	const keys, goroutines, turns = 3, 24, 300
	s := newSet(100, 1000)
	var locks [keys]struct { // what the store would have
		sync.Mutex
		free   chan struct{}
		inside int
	}
	for i := range locks {
		locks[i].free = make(chan struct{}, 1)
		locks[i].free <- struct{}{}
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			lock, key := &locks[g%keys], fmt.Sprint("k", g%keys)
			for range turns {
				holder := new(int)
				j := s.Join(store.Ref{Key: key}, Caller{}, true)
				w := j.Waiter
				if j.Rests {
					for served := false; !served; {
						select {
						case <-w.Grants:
							s.Take(w, holder, 0, nil)
							served = true
						case <-w.Wake:
							if w.MustAsk() {
								s.Ask(w)
								<-lock.free
								s.Take(w, holder, 0, &Answer{Sent: time.Now()})
								served = true
							}
						}
					}
				} else {
					<-lock.free
					s.Take(w, holder, 0, &Answer{Sent: time.Now()})
				}
				lock.Lock()
				if lock.inside++; lock.inside != 1 {
					t.Errorf("%d have %s", lock.inside, key)
				}
				lock.Unlock()
				lock.Lock()
				lock.inside--
				lock.Unlock()
				if to, ok, _ := s.Offer(key, holder); ok {
					s.OfferEnded(OfferResult{To: to.Ref, Sent: time.Now(), Outcome: WasGranted})
				} else {
					lock.free <- struct{}{}
				}
			}
		})
	}
	all.Wait()
	for p := range s.parts.All() {
		if len(p.queues) > 0 || len(p.tokens) > 0 {
			t.Errorf("a shard keeps %d queues and %d tokens", len(p.queues), len(p.tokens))
		}
	}
	if n := s.length.Load(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// behind returns a Set in which "holder" has the key k, and n who rest behind it.
func behind(t *testing.T, n int) (s *Set, resting []*Waiter) {
	t.Helper()
	s = newSet(10, 10)
	first := s.Join(store.Ref{Key: "k"}, Caller{}, true)
	s.Take(first.Waiter, "holder", 0, &Answer{Sent: time.Now(), Clock: 1})
	for range n {
		j := s.Join(store.Ref{Key: "k"}, Caller{}, true)
		if !j.Rests || j.Holder != "holder" {
			t.Fatal("behind a holder of the process nobody need ask")
		}
		resting = append(resting, j.Waiter)
	}
	return s, resting
}

// Redis may carry out a release before the command of a waiter that is under way. Then it
// does not know the waiter, and the release must tell of it.
func TestAReleaseOffersTheKeyToAWaiterThatAsksJustThen(t *testing.T) {
	s, w := behind(t, 2)
	token, _, _ := s.Ask(w[0])
	if to, ok, _ := s.Offer("k", "holder"); !ok || to.Token != token || to.Place.Behind != 1 {
		t.Errorf("Offer = %+v, %t", to, ok)
	}

	s, w = behind(t, 2)
	s.Ask(w[0])
	s.Answered(w[0], Answer{Sent: time.Now(), Clock: 1, Queued: true})
	if to, ok, _ := s.Offer("k", "holder"); ok {
		t.Errorf("the key is offered to %v, which has a place already", to)
	}
}

// A release whose answer is lost leaves it open whether Redis knows of the waiter. But
// nothing more comes of it, so nobody whose time is up waits for that.
func TestALostAnswerOfAReleaseIsNotWaitedFor(t *testing.T) {
	s, w := behind(t, 1)
	to, ok, _ := s.Offer("k", "holder")
	if state := s.Look(w[0]).State; !ok || state != Offered {
		t.Fatalf("offered: %t, the waiter is %v", ok, state)
	}
	if s.OfferEnded(OfferResult{To: to.Ref, Sent: time.Now(), Outcome: WasUnanswered}) {
		t.Fatal("it waits no more")
	}
	if state := s.Look(w[0]).State; state != Doubtful || !w[0].MustAsk() {
		t.Errorf("the waiter is %v, want doubtful and asking", state)
	}
	if left := s.Leave(w[0]); left.State != Doubtful || left.Token != to.Token {
		t.Errorf("Leave = %+v: Redis may know of it", left)
	}
}

// Each of those who rest looks from time to time how it stands, and leaves when it has its
// turn. What that costs does not grow with how many others rest, wherever one stands that
// does not.
func TestManyRestInFrontOfOneThatAsks(t *testing.T) {
	const n = 20_000
	took := func(tail ...store.Ref) time.Duration {
		s := newSet(2*n, 2*n)
		first := s.Join(store.Ref{Key: "k"}, Caller{}, true)
		s.Take(first.Waiter, "holder", 0, &Answer{Sent: time.Now(), Clock: 1})
		var resting []*Waiter
		for range n {
			resting = append(resting, s.Join(store.Ref{Key: "k"}, Caller{}, true).Waiter)
		}
		for _, ref := range tail {
			if j := s.Join(ref, Caller{}, true); j.Rests || !s.Look(j.Waiter).Asker {
				t.Fatal("it has to ask for all")
			}
		}
		began := time.Now()
		for _, w := range resting {
			if v := s.Look(w); v.State != Resting || v.Asker {
				t.Fatalf("one who rests stands as %+v", v)
			}
		}
		for range n {
			if !s.PassOn("k", "holder", Grant{}) {
				t.Fatal("not handed to one who rests")
			}
		}
		return time.Since(began)
	}
	alone, behind := took(), took(store.Ref{Key: "k", Kind: store.Kind{Shared: true}})
	if behind > 20*alone+100*time.Millisecond {
		t.Errorf("%d turns take %v with one who asks behind them, %v without", n, behind, alone)
	}
}

// The one that stands in the store's queue for those behind it brings the next one a place when its own wait is over. If it has the lock
// instead, the next one asks.
func TestALastQuestionBringsTheNextOne(t *testing.T) {
	join := func(t *testing.T, brings bool) (s *Set, next *Waiter, to store.Ref) {
		s = newSet(10, 10)
		first := s.Join(store.Ref{Key: "k"}, Caller{}, true)
		second := s.Join(store.Ref{Key: "k"}, Caller{Asks: !brings}, true)
		s.Join(store.Ref{Key: "k"}, Caller{}, true)
		s.Answered(first.Waiter, Answer{Sent: time.Now(), Clock: 1, Queued: true})
		_, _, got, ok := s.AskLast(first.Waiter)
		if !ok || (got.Token != "") != brings {
			t.Fatalf("AskLast = %+v, %t", got, ok)
		}
		if brings && got.Place.Behind != 1 {
			t.Errorf("%d behind the next one, want 1", got.Place.Behind)
		}
		return s, second.Waiter, got.Ref
	}
	for name, tc := range map[string]struct {
		outcome Outcome
		is      State
		asks    bool
	}{
		"a place":   {WasQueued, Queued, false},
		"none":      {WasNotHeld, Asking, true},
		"no answer": {WasUnanswered, Doubtful, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, next, to := join(t, true)
			if s.OfferEnded(OfferResult{To: to, Sent: time.Now(), Outcome: tc.outcome}) {
				t.Fatal("the next one waits no more")
			}
			if is, asks := s.Look(next).State, next.MustAsk(); is != tc.is || asks != tc.asks {
				t.Errorf("the next one is %v, asks %t, want %v, %t", is, asks, tc.is, tc.asks)
			}
		})
	}
	join(t, false) // which asks by itself
	for name, order := range map[string][]int{"the second one before the first": {1, 0}, "the first one before the second": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newSet(10, 10)
			var all [3]*Waiter
			for i := range all {
				all[i] = s.Join(store.Ref{Key: "k"}, Caller{}, true).Waiter
			}
			s.Answered(all[0], Answer{Sent: time.Now(), Clock: 1, Queued: true})
			for _, i := range order {
				s.AskLast(all[i])
			}
			if is := s.States("k"); is[2] != Offered && (order[0] == 1 || is[1] != Offered) {
				t.Errorf("two leave at the same time, and the states are %v: the third has no place", is)
			}
		})
	}
	s, w := behind(t, 2)
	if _, _, next, _ := s.AskLast(w[0]); next.Token != "" {
		t.Errorf("%q is to have a place, and one of its process passes the lock on", next.Token)
	}
}

// A release that comes when its holder has overstayed offers the lock to the one that asks since then, whose question may come behind it.
func TestAReleaseAfterMaxHoldOffersTheKey(t *testing.T) {
	s, w := behind(t, 1)
	s.Overstays("k", "holder")
	if !w[0].MustAsk() {
		t.Error("the waiter does not ask, and nobody sees to its turn")
	}
	if s.PassOn("k", "holder", Grant{Tenure: "holder"}) {
		t.Error("the lock is passed on")
	}
	if to, ok, _ := s.Offer("k", "holder"); !ok || s.Look(w[0]).State != Offered {
		t.Errorf("Offer = %+v, %t", to, ok)
	}
	if to, ok, _ := s.Offer("k", "holder"); ok {
		t.Errorf("the key is offered twice, to %+v", to)
	}

	s, w = behind(t, 1)
	s.Overstays("k", "holder")
	s.Take(w[0], "another", 0, nil)
	s.Join(store.Ref{Key: "k"}, Caller{}, true)
	if to, ok, _ := s.Offer("k", "holder"); ok {
		t.Errorf("the key of another one is offered to %+v", to)
	}

	s, _ = behind(t, 1)
	s.Overstays("k", "holder")
	s.ForgetHolder("k", "holder")
	if to, ok, _ := s.Offer("k", "holder"); ok {
		t.Errorf("the key is offered to %+v by one that is forgotten", to)
	}
}
