package scenario

import (
	"math"
	"testing"
	"time"

	"github.com/lockmw/kit/bench/load"
	"github.com/lockmw/kit/bench/redisinfo"
	"github.com/lockmw/kit/bench/waits"
)

func TestNamesAreUnique(t *testing.T) {
	for _, s := range []Sizes{Full(), Quick()} {
		names := make(map[string]bool)
		for _, c := range All(s) {
			if names[c.Name] {
				t.Errorf("two scenarios are called %q", c.Name)
			}
			names[c.Name] = true
			if c.Rounds < 1 || c.Window <= 0 || c.Processes < 1 || len(c.Libraries) == 0 {
				t.Errorf("%s: %+v", c.Name, c)
			}
		}
	}
}

// seen is a measurement of so many turns in a second.
func seen(turns int64) Seen {
	var c waits.Counts
	c.Add(time.Duration(turns))
	return Seen{
		Window: time.Second,
		Result: load.Result{Turns: turns, Most: turns, Fewest: 1, Waits: c.Summary(), Commands: 2 * turns, CPU: 500 * time.Millisecond},
		Redis:  redisinfo.Usage{Calls: 5 * turns, Bytes: 10 * turns},
	}
}

func TestFiguresAreMediansOfTheRounds(t *testing.T) {
	f := FiguresOf([]Seen{seen(30), seen(10), seen(20)})
	if want := (Spread{Median: 20, Least: 10, Most: 30}); f.PerSecond != want {
		t.Errorf("turns/s = %v, want %v", f.PerSecond, want)
	}
	if f.Max != 30 || f.P50 != 20 || f.Turns != 60 || f.Rounds != 3 {
		t.Errorf("max %v, p50 %v, %d turns in %d rounds", f.Max, f.P50, f.Turns, f.Rounds)
	}
	if f.Commands != 2 || f.Calls != 3 || f.Bytes != 10 {
		t.Errorf("per turn: %v commands, %v calls, %v bytes; want 2, 3, 10", f.Commands, f.Calls, f.Bytes)
	}
	if f.ClientCPU != 25*time.Millisecond || f.ClientLoad != 0.5 {
		t.Errorf("CPU %v per turn, load %v", f.ClientCPU, f.ClientLoad)
	}
}

func TestNothingSeenHasNoFigures(t *testing.T) {
	if f := FiguresOf(nil); f != (Figures{}) {
		t.Errorf("%+v", f)
	}
	if f := FiguresOf([]Seen{{Window: time.Second}}); f.PerSecond.Median != 0 || f.Commands != 0 {
		t.Errorf("no turns: %+v", f)
	}
}

func TestUnfairness(t *testing.T) {
	for _, tc := range []struct{ most, fewest, want float64 }{
		{20, 10, 2}, {4, 3, 1}, {1, 0, 1}, {5, 5, 1}, {2, 0, math.Inf(1)},
	} {
		if got := (Figures{Most: tc.most, Fewest: tc.fewest}).Unfairness(); got != tc.want {
			t.Errorf("%v / %v = %v, want %v", tc.most, tc.fewest, got, tc.want)
		}
	}
}
