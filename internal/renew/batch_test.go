package renew

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// about is a pause of about a third of the TTL, as leases have.
func about(ttl time.Duration) time.Duration {
	return ttl/3 - ttl/30 + rand.N(ttl/15)
}

// Items that are due one shortly after the other go together, and none so early that it
// costs renewals.
func TestRenewalsRideAlong(t *testing.T) {
	for _, tc := range []struct {
		items int
		most  int // batches for each of the rounds
	}{
		{1, 1}, {1000, 100}, {10_000, 250},
	} {
		t.Run(strconv.Itoa(tc.items), func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				const ttl, rounds = 30 * time.Second, 6
				items := make([]*fakeItem, tc.items)
				for i := range items {
					it := s.item("k"+strconv.Itoa(i), 0)
					it.pauses = func() time.Duration { return about(ttl) }
					s.Add(&it.renewal, time.Now(), about(ttl))
					items[i] = it
				}
				s.at(rounds * ttl / 3)
				if got := len(s.store.batches); got > rounds*tc.most+1 {
					t.Errorf("%d batches, want at most %d", got, rounds*tc.most)
				}
				t.Logf("%d items: %d batches in %d thirds of their TTL", tc.items, len(s.store.batches), rounds)
				for _, it := range items {
					if n := len(it.times()); n < rounds-1 || n > rounds+1 {
						t.Errorf("%s was renewed %d times in %d thirds of its TTL", it.key, n, rounds)
					}
				}
			})
		})
	}
}

// What is due at the same time goes in batches of at most batchSize, several at a time.
func TestMoreAreDueThanABatchHolds(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		const n = (flightsMax+1)*batchSize + 1
		for i := range n {
			s.add("k"+strconv.Itoa(i), time.Second)
		}
		s.at(1500 * ms)
		var sizes []int
		for _, b := range s.store.batches {
			sizes = append(sizes, len(b))
		}
		slices.Sort(sizes)
		if want := slices.Concat([]int{1}, slices.Repeat([]int{batchSize}, flightsMax+1)); !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
		if s.store.most != flightsMax {
			t.Errorf("%d in flight, want %d", s.store.most, flightsMax)
		}
	})
}

// Items whose timeouts differ much do not go together, and the shortest bounds a batch.
func TestTimeoutsOfABatchAreAlike(t *testing.T) {
	for _, tc := range []struct {
		timeouts []time.Duration // the one that was added first is due first
		batches  []time.Duration // the time that each had
	}{
		{[]time.Duration{100 * ms, 200 * ms, 50 * ms}, []time.Duration{50 * ms}},
		{[]time.Duration{100 * ms, 201 * ms}, []time.Duration{100 * ms, 201 * ms}},
		{[]time.Duration{100 * ms, 49 * ms}, []time.Duration{49 * ms, 100 * ms}},
	} {
		onStage(t, func(t *testing.T, s *stage) {
			for i, timeout := range tc.timeouts {
				it := s.item("k"+strconv.Itoa(i), time.Second)
				it.timeout = timeout
				s.Add(&it.renewal, time.Now(), time.Second+time.Duration(i))
			}
			s.at(1500 * ms)
			got := slices.Sorted(slices.Values(s.store.times))
			if !slices.Equal(got, tc.batches) {
				t.Errorf("timeouts %v: batches had %v, want %v", tc.timeouts, got, tc.batches)
			}
		})
	}
}

// Items with a short timeout do not take the time of others: their server may be too far
// away for the one, and not for the other.
func TestShortTimeoutsDoNotHurryOthers(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.store.distance = 50 * ms
		const n = 100
		var items []*fakeItem
		adds := func(letter string, ttl time.Duration) {
			for i := range n {
				it := s.item(letter+strconv.Itoa(i), 0)
				it.pauses, it.timeout = func() time.Duration { return about(ttl) }, ttl/6
				s.Add(&it.renewal, time.Now(), about(ttl))
				items = append(items, it)
			}
		}
		adds("a", 3*time.Second)
		for range 50 {
			adds("b", 220*ms)
			time.Sleep(100 * ms)
			for _, it := range items[n:] {
				it.change(func() { it.over = true }) // otherwise there would be more and more
			}
			items = items[:n]
		}
		synctest.Wait()
		for _, it := range items {
			if got, _ := it.outcomes(); got < 3 {
				t.Errorf("%s was renewed %d times in 5 s, want about five", it.key, got)
			}
		}
		if s.store.late['a'] > 0 || s.store.late['b'] == 0 {
			t.Errorf("%v had too little time, want those of b alone", s.store.late)
		}
	})
}

// Items of a server that is cut off go by themselves, and cost the others nothing, however
// long that server is silent.
func TestWhatIsCutOffGoesByItself(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.store.hangs = 'x'
		const n = 1000
		var sound []*fakeItem
		for i := range n {
			x := s.item("x"+strconv.Itoa(i), time.Second)
			x.cut = true
			s.Add(&x.renewal, time.Now(), time.Second)
			sound = append(sound, s.add("a"+strconv.Itoa(i), time.Second))
		}
		s.at(10*time.Second + 500*ms)
		for _, it := range sound {
			if answered, failed := it.outcomes(); answered != 10 || failed > 0 {
				t.Errorf("%s: %d answers, %d failures; want 10 in as many seconds, and none", it.key, answered, failed)
			}
		}
		for _, keys := range s.store.batches {
			all := strings.Join(keys, "")
			if strings.Contains(all, "x") && strings.Contains(all, "a") {
				t.Fatalf("a batch has keys of both servers: %v", keys)
			}
		}
		if _, _, cut := s.counts(); cut == 0 {
			t.Error("nothing waits with the server that is cut off")
		}
	})
}
