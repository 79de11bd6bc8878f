package lockmw

import (
	"testing"
	"time"
)

func TestPausesAreDrawnFromIntervalToTwiceInterval(t *testing.T) {
	start := time.Now()
	var p pace
	p.begin(Policy{RetryInterval: 100 * time.Millisecond, Retries: 1000}, start)
	previous := start
	shortest, longest := time.Hour, time.Duration(0)
	for {
		end, last := p.after(previous)
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
	var p pace
	p.begin(Policy{RetryInterval: time.Second, Retries: 3}, start)
	for range 3 { // looking again costs nothing
		if end, last := p.after(start); last || !end.After(start) {
			t.Fatalf("after the start: %v, %v", end.Sub(start), last)
		}
	}
	end, last := p.after(start.Add(time.Hour))
	if !last || end.Sub(start) < 3*time.Second || end.Sub(start) >= 6*time.Second {
		t.Errorf("three retries end after %v (last %v), want 3 to 6 s", end.Sub(start), last)
	}
	if again, last := p.after(start.Add(2 * time.Hour)); !last || again != end {
		t.Error("used-up retries moved")
	}
}

func TestForeverHasNoEnd(t *testing.T) {
	start := time.Now()
	for _, retries := range []int{0, Forever} {
		var p pace
		p.begin(Policy{RetryInterval: time.Second, Retries: retries}, start)
		if end, last := p.after(start.Add(time.Hour)); last || !end.After(start.Add(time.Hour)) {
			t.Errorf("Retries %d: ended after %v", retries, end.Sub(start))
		}
	}
}
