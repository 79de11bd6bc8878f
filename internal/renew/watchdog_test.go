package renew

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

const ms = time.Millisecond

// The store is 1 ms away. The item "k" is added at 0 with a pause of 1 s, as are others. In
// want is when it is asked for within the first 2.5 s.
func TestWhenRenewalsCome(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(s *stage, k *fakeItem)
		want []time.Duration
	}{
		{"when due, and a pause after each answer", func(*stage, *fakeItem) {}, []time.Duration{1000 * ms, 2001 * ms}},
		{"early with one that is due", func(s *stage, _ *fakeItem) {
			s.add("o", 960*ms)
		}, []time.Duration{960 * ms, 1921 * ms}},
		{"not that early", func(s *stage, _ *fakeItem) {
			s.add("o", 940*ms)
		}, []time.Duration{1000 * ms, 2001 * ms}},
		{"again after a failure", func(s *stage, _ *fakeItem) {
			s.store.change(func() { s.store.failed["k"] = 2 })
		}, []time.Duration{1000 * ms, 1011 * ms, 1022 * ms, 2023 * ms}},
		{"again after no answer within the item's timeout", func(s *stage, k *fakeItem) {
			s.store.change(func() { s.store.hangs = 'k' })
			k.change(func() { k.timeout = 500 * ms })
			s.at(1499 * ms)
			s.store.change(func() { s.store.hangs = 0 })
		}, []time.Duration{1000 * ms, 1510 * ms}},
		{"not once the item's terms say so", func(s *stage, k *fakeItem) {
			s.at(1500 * ms)
			k.change(func() { k.over = true })
		}, []time.Duration{1000 * ms}},
		{"not after an answer that brings no pause", func(_ *stage, k *fakeItem) {
			k.change(func() { k.pauses = func() time.Duration { return 0 } })
		}, []time.Duration{1000 * ms}},
		{"when due, where the server is cut off", func(_ *stage, k *fakeItem) {
			k.change(func() { k.cut = true })
		}, []time.Duration{1000 * ms, 2001 * ms}},
		{"now, from the intake", func(s *stage, k *fakeItem) {
			s.at(100 * ms)
			s.RenewNow(&k.renewal)
		}, []time.Duration{100 * ms, 1101 * ms, 2102 * ms}},
		{"now, from the agenda", func(s *stage, k *fakeItem) {
			s.at(1500 * ms)
			s.RenewNow(&k.renewal)
		}, []time.Duration{1000 * ms, 1500 * ms}},
		{"now, but for what is in flight", func(s *stage, k *fakeItem) {
			s.store.change(func() { s.store.distance = 200 * ms })
			s.at(1100 * ms)
			s.RenewNow(&k.renewal)
		}, []time.Duration{1000 * ms, 2200 * ms}},
		{"all now", func(s *stage, _ *fakeItem) {
			s.at(100 * ms)
			s.RenewAll()
		}, []time.Duration{100 * ms, 1101 * ms, 2102 * ms}},
		{"not after its removal from the intake", func(s *stage, k *fakeItem) {
			s.at(100 * ms)
			s.Remove(&k.renewal)
			s.RenewNow(&k.renewal)
		}, nil},
		{"not after its removal from the agenda", func(s *stage, k *fakeItem) {
			s.at(1500 * ms)
			s.Remove(&k.renewal)
			s.RenewNow(&k.renewal)
			s.Remove(&k.renewal)
		}, []time.Duration{1000 * ms}},
		{"not after its removal in flight", func(s *stage, k *fakeItem) {
			s.store.change(func() { s.store.distance = 200 * ms })
			s.at(1100 * ms)
			s.RemoveNoWait(&k.renewal)
		}, []time.Duration{1000 * ms}},
		{"not after the end", func(s *stage, _ *fakeItem) {
			s.at(1500 * ms)
			s.Stop()
		}, []time.Duration{1000 * ms}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				k := s.add("k", time.Second)
				tc.do(s, k)
				s.at(2500 * ms)
				if got := k.times(); !slices.Equal(got, tc.want) {
					t.Errorf("asked for at %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// A removal waits until the item has heard of the batch that it is in, and for nothing else.
func TestRemoveWaitsForWhatIsInFlight(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.store.distance = 200 * ms
		k, o := s.item("k", time.Second), s.item("o", time.Second)
		k.hears, o.hears = 10*ms, 10*ms
		s.Add(&k.renewal, time.Now(), time.Second)
		s.Add(&o.renewal, time.Now(), 1100*ms)
		s.at(1150 * ms) // both are in flight
		for _, it := range []*fakeItem{k, k, o} {
			s.Remove(&it.renewal)
			if got, _ := it.outcomes(); got != 1 {
				t.Errorf("%s had %d answers when its removal returned, want 1", it.key, got)
			}
			if got, want := time.Since(s.began), it.times()[0]+210*ms; got != want {
				t.Errorf("the removal of %s returned at %v, want %v", it.key, got, want)
			}
		}
		p := s.add("p", time.Second)
		s.at(2350 * ms) // p is in flight
		s.RemoveNoWait(&p.renewal)
		for range 2 {
			s.Remove(&o.renewal)
		}
		s.Remove(&s.add("q", time.Second).renewal)
		if got := time.Since(s.began); got != 2350*ms {
			t.Errorf("returned at %v, want at once", got)
		}
	})
}

// What is removed before it is added is not renewed, and leaves nothing.
func TestRemovedBeforeAdded(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		k := s.item("k", time.Second)
		s.Remove(&k.renewal)
		s.RenewNow(&k.renewal)
		s.Add(&k.renewal, time.Now(), time.Second)
		s.at(1500 * ms)
		if n := len(k.times()); n > 0 {
			t.Errorf("renewed %d times", n)
		}
		if fresh, sound, cut := s.counts(); fresh+sound+cut > 0 {
			t.Errorf("%d, %d and %d renewals are left, want none", fresh, sound, cut)
		}
	})
}

func TestStopWaitsForWhatIsInFlight(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.store.distance = 200 * ms
		k, x := s.add("k", time.Second), s.item("x", time.Second)
		x.cut = true
		s.Add(&x.renewal, time.Now(), time.Second)
		due := s.add("d", 1150*ms) // when the others are in flight
		s.at(1100 * ms)
		s.Stop()
		if got := time.Since(s.began); got != 1200*ms || k.answered != 1 || x.answered != 1 {
			t.Errorf("returned at %v, after %d and %d answers; want 1.2s and one each", got, k.answered, x.answered)
		}
		late := s.add("l", time.Second)
		s.RenewNow(&late.renewal)
		s.RenewAll()
		s.at(5 * time.Second)
		if n := len(late.times()) + len(due.times()) + len(k.times()) + len(x.times()); n != 2 {
			t.Errorf("%d renewals, want two", n)
		}
	})
}

// While as many batches are in flight as may be, what is due waits for the first that lands.
func TestLateWhileTooManyAreInFlight(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.store.distance = 500 * ms
		var items []*fakeItem
		for i := range flightsMax + 1 { // too far apart to ride along
			items = append(items, s.add("k"+strconv.Itoa(i), time.Second+time.Duration(i)*60*ms))
		}
		s.at(1700 * ms)
		for i, it := range items {
			want := time.Second + time.Duration(i)*60*ms
			if i == flightsMax {
				want = 1500 * ms
			}
			if got := it.times(); !slices.Equal(got, []time.Duration{want}) {
				t.Errorf("%s was asked for at %v, want %v", it.key, got, want)
			}
		}
		if s.store.most != flightsMax {
			t.Errorf("%d batches in flight, want %d", s.store.most, flightsMax)
		}
	})
}

// Items that are over before they are due leave nothing with the Watchdog, and those that
// stay are renewed though they came after the timer was set.
func TestShortLivesDoNotReachTheAgenda(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		const n = 200
		first := s.add("f", time.Second)
		var stay, gone []*fakeItem
		for i := range n { // due later than the first
			stay = append(stay, s.add("s"+strconv.Itoa(i), 2*time.Second))
			gone = append(gone, s.add("g"+strconv.Itoa(i), 2*time.Second))
		}
		for _, it := range gone {
			s.Remove(&it.renewal)
		}
		if fresh, sound, _ := s.counts(); fresh != n || sound != 1 {
			t.Errorf("%d renewals in intakes and %d on the agenda, want the %d that stay, and the first", fresh, sound, n)
		}
		s.at(3 * time.Second)
		for _, it := range slices.Concat(stay, gone) {
			if got, want := len(it.times()), map[byte]int{'s': 1}[it.key[0]]; got != want {
				t.Errorf("%s was renewed %d times, want %d", it.key, got, want)
			}
		}
		if len(first.times()) != 2 {
			t.Errorf("the first was renewed at %v", first.times())
		}
	})
}

// The timer is set anew for one that is due before all others. Its pause counts from a while
// ago.
func TestADueTimeBeforeAllOthers(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.add("f", 10*time.Second)
		s.at(time.Second)
		k := s.item("k", time.Second)
		s.Add(&k.renewal, s.began.Add(300*ms), time.Second)
		s.at(2200 * ms)
		if got := k.times(); !slices.Equal(got, []time.Duration{1300 * ms}) {
			t.Errorf("asked for at %v, want 1.3s", got)
		}
	})
}
