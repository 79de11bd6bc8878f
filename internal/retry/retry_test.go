package retry

import (
	"math"
	"testing"
	"time"
)

func TestPausesAreDrawnFromIntervalToTwiceInterval(t *testing.T) {
	start := time.Now()
	var i Intervals
	i.Begin(1000, 100*time.Millisecond, start)
	previous := start
	shortest, longest := time.Hour, time.Duration(0)
	for {
		end, last := i.After(previous)
		pause := end.Sub(previous)
		shortest, longest = min(shortest, pause), max(longest, pause)
		previous = end
		if last {
			break
		}
	}
	if shortest < 100*time.Millisecond || longest >= 200*time.Millisecond {
		t.Errorf("pauses from %v to %v, want them in [100ms, 200ms)", shortest, longest)
	}
	if shortest > 110*time.Millisecond || longest < 190*time.Millisecond {
		t.Errorf("1000 pauses from %v to %v: that is hardly jittered", shortest, longest)
	}
}

func TestRetriesAreCountedOnce(t *testing.T) {
	start := time.Now()
	var i Intervals
	i.Begin(3, time.Second, start)
	for range 3 { // looking again costs nothing
		if end, last := i.After(start); last || !end.After(start) {
			t.Fatalf("after the start: %v, %v", end.Sub(start), last)
		}
	}
	end, last := i.After(start.Add(time.Hour))
	if !last || end.Sub(start) < 3*time.Second || end.Sub(start) >= 6*time.Second {
		t.Errorf("three retries end after %v (last %v), want 3 to 6 s", end.Sub(start), last)
	}
	if again, last := i.After(start.Add(2 * time.Hour)); !last || again != end {
		t.Error("used-up retries moved")
	}
}

func TestIntervalsWithoutBoundHaveNoEnd(t *testing.T) {
	start := time.Now()
	for _, n := range []int{0, math.MaxInt} {
		var i Intervals
		i.Begin(n, time.Second, start)
		if end, last := i.After(start.Add(time.Hour)); last || !end.After(start.Add(time.Hour)) {
			t.Errorf("%d intervals: ended after %v", n, end.Sub(start))
		}
	}
}
