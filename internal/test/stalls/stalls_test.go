package stalls

import (
	"testing"
	"time"
)

// Who wakes from a stall before the sleeper does is told of it, once.
func TestAStallThatEndsNowCounts(t *testing.T) {
	due := time.Now().Add(-200 * time.Millisecond)
	m := &Meter{due: due}
	if got := m.Longest(due, time.Now()); got < 200*time.Millisecond {
		t.Errorf("before the sleeper is awake the longest stall is %v, want 200 ms", got)
	}
	m.wake(false)
	took := time.Since(due)
	if got := m.Between(due, time.Now()); got < 200*time.Millisecond || got > took {
		t.Errorf("when it is awake they take %v together, want 200 ms to %v", got, took)
	}
}

func TestStallsOfATime(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	m := new(Meter)
	m.Add(Stall{at(100), at(104)}) // too short
	m.Add(Stall{at(200), at(300)})
	m.Add(Stall{at(500), at(900)})
	for _, tc := range []struct {
		from, to, want int
	}{
		{0, 150, 0}, {0, 199, 0}, {301, 499, 0}, {901, 2000, 0},
		{0, 200, 100}, {250, 260, 100}, {300, 400, 100}, {250, 600, 500}, {0, 2000, 500},
	} {
		if got := m.Between(at(tc.from), at(tc.to)); got != time.Duration(tc.want)*time.Millisecond {
			t.Errorf("between %d and %d ms: %v, want %d ms", tc.from, tc.to, got, tc.want)
		}
	}
	if got := m.Longest(at(0), at(2000)); got != 400*time.Millisecond {
		t.Errorf("the longest took %v, want 400 ms", got)
	}
	if got := m.Longest(at(0), at(400)); got != 100*time.Millisecond {
		t.Errorf("the longest until 400 ms took %v, want 100 ms", got)
	}
}
