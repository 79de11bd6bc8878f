package goal

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/load"
	"github.com/lockmw/kit/bench/scenario"
)

func TestAGoalIsMetByAllOfItsParts(t *testing.T) {
	good, bad := part{label: "a: ", value: 1.3, format: "%.1f"}, part{label: "b: ", value: 1.2, format: "%.1f", note: " (x)"}
	none := part{label: "c: ", value: math.NaN()}
	for _, tc := range []struct {
		name  string
		goal  Goal
		want  Verdict
		shown string
	}{
		{"at least", atLeast(1.3, "", good), Met, "a: 1.3"},
		{"not at least", atLeast(1.3, "", good, bad), Missed, "a: 1.3; b: 1.2 (x)"},
		{"at most", atMost(1.2, "", bad), Met, "b: 1.2 (x)"},
		{"not at most", atMost(1.2, "", good, bad), Missed, "a: 1.3; b: 1.2 (x)"},
		{"not all measured", atLeast(1.3, "", none, good), NotMeasured, "c: –; a: 1.3"},
		{"missed, whatever the rest is", atLeast(1.3, "", none, bad), Missed, "c: –; b: 1.2 (x)"},
		{"nothing", atLeast(1, ""), NotMeasured, ""},
	} {
		if tc.goal.Met != tc.want || tc.goal.Measured != tc.shown {
			t.Errorf("%s: %q, %q, want %q, %q", tc.name, tc.goal.Met, tc.goal.Measured, tc.want, tc.shown)
		}
	}
}

func row(name, lib string, f scenario.Figures) scenario.Row {
	f.Rounds = 1
	return scenario.Row{Scenario: scenario.Scenario{Name: name}, Library: lib, Figures: f}
}

func fast(perSecond float64, p99 time.Duration) scenario.Figures {
	return scenario.Figures{PerSecond: scenario.Spread{Median: perSecond}, P99: p99, Most: 10, Fewest: 10}
}

// find returns the goal whose text begins so.
func find(t *testing.T, rows []scenario.Row, text string) Goal {
	t.Helper()
	for _, g := range All(rows) {
		if strings.HasPrefix(g.Text, text) {
			return g
		}
	}
	t.Fatalf("there is no goal %q", text)
	return Goal{}
}

func TestWithoutAMeasurementNoGoalIsMet(t *testing.T) {
	for _, g := range All(nil) {
		if g.Met != NotMeasured {
			t.Errorf("%s: %s, %s", g.Text, g.Met, g.Measured)
		}
	}
}

func TestTheBestRivalIsTheFastestAndNotTheFloor(t *testing.T) {
	const name = scenario.ManyProcesses
	rows := []scenario.Row{
		row(name, library.Ours, fast(100, 10*time.Millisecond)),
		row(name, library.Redislock, fast(80, 100*time.Millisecond)),
		row(name, library.Rueidis, fast(50, 20*time.Millisecond)),
		row(name, library.Raw, fast(1000, time.Millisecond)),
	}
	if g := find(t, rows, name+": ≥"); g.Met != Met || g.Measured != "1.25 (redislock)" {
		t.Errorf("speed: %+v", g)
	}
	if g := find(t, rows, name+": p99"); g.Met != Met || g.Measured != "0.100 (redislock; the lowest has rueidislock: 0.500)" {
		t.Errorf("p99: %+v", g)
	}
	if g := find(t, rows, name+": most"); g.Met != Met {
		t.Errorf("fairness: %+v", g)
	}
}

func TestGoalsOfOwnKeys(t *testing.T) {
	// with returns rows in which ours makes so many times redislock's turns, and has
	// this much of its cost.
	with := func(speed, cost float64) (rows []scenario.Row) {
		figures := func(speed, cost float64) scenario.Figures {
			f := fast(speed, 0)
			f.ClientCPU, f.Allocs, f.Connections = time.Duration(cost*1000), cost*20, cost*9
			f.RedisTime.Median = cost * 3
			return f
		}
		names := []string{
			scenario.Pipeline, scenario.OneKey(512, 0), scenario.ManyProcesses, scenario.Service,
			scenario.OwnKeysAt(64, time.Millisecond), scenario.OwnKeysAt(64, 5*time.Millisecond),
		}
		for _, n := range scenario.Full().Goroutines {
			names = append(names, scenario.OwnKeys(n))
		}
		for _, name := range names {
			rows = append(rows, row(name, library.Ours, figures(1000*speed, cost)),
				row(name, library.Redislock, figures(1000, 1)), row(name, library.Raw, figures(1000, 1)))
		}
		return append(rows, row(scenario.Pipeline, library.OursByScripts, figures(1, 3)))
	}
	const own = "own keys, "
	for _, tc := range []struct {
		goal         string
		good, bad    [2]float64 // speed and cost
		saidOfTheBad string
	}{
		{own + "1 and 2 goroutines: ≥ 1.0 ×", [2]float64{1, 1}, [2]float64{0.99, 1}, "1: 0.99 (redislock); 2: 0.99 (redislock)"},
		{own + "4 and 8 goroutines: ≥ 1.1 ×", [2]float64{1.1, 1}, [2]float64{1.09, 1}, "4: 1.09 (redislock); 8: 1.09 (redislock)"},
		{own + "16 and 24 goroutines: ≥ 1.2 ×", [2]float64{1.2, 1}, [2]float64{1.19, 1}, "16: 1.19 (redislock); 24: 1.19 (redislock)"},
		{own + "64 and 512 goroutines: ≥ 1.6 ×", [2]float64{1.6, 1}, [2]float64{1.59, 1}, "64: 1.59 (redislock); 512: 1.59 (redislock)"},
		{own + "64 and 512 goroutines: ≥ 2 × raw", [2]float64{2, 1}, [2]float64{1.99, 1}, "64: 1.99; 512: 1.99"},
		{own + "from 4 goroutines on: client CPU", [2]float64{1, 0.7}, [2]float64{1, 0.71}, "4: 0.71; 8: 0.71; 16: 0.71; 24: 0.71; 64: 0.71; 512: 0.71"},
		{own + "64 goroutines, 1 and 5 ms of delay", [2]float64{1, 1}, [2]float64{0.99, 1}, "1 ms: 0.99 (redislock); 5 ms: 0.99 (redislock)"},
		{"own keys: taking a lock and giving it back", [2]float64{1, 1}, [2]float64{1, 1.05}, "1: 21.0; 2: 21.0; 4: 21.0; 8: 21.0; 16: 21.0; 24: 21.0; 64: 21.0; 512: 21.0"},
		{scenario.Pipeline + ": Redis's time to give it and take it back ≤ 6 µs", [2]float64{1, 2}, [2]float64{1, 2.01}, "6.03 µs (by scripts 9.00)"},
		{scenario.Pipeline + ": Redis's time to give it and take it back ≤ 2 ×", [2]float64{1, 2}, [2]float64{1, 2.01}, "2.01"},
		{"connections of a busy process", [2]float64{1, 1}, [2]float64{1, 10.0 / 9}, own + "512: 10; one key, 512, empty: 10; " + scenario.ManyProcesses + ": 10; " + scenario.Service + ": 10"},
	} {
		if g := find(t, with(tc.good[0], tc.good[1]), tc.goal); g.Met != Met {
			t.Errorf("%+v", g)
		}
		if g := find(t, with(tc.bad[0], tc.bad[1]), tc.goal); g.Met != Missed || g.Measured != tc.saidOfTheBad {
			t.Errorf("%+v, want %q", g, tc.saidOfTheBad)
		}
	}
}

func TestRoundTripsOfATurn(t *testing.T) {
	far := func(perSecond float64) scenario.Figures {
		f := fast(perSecond, 0)
		f.RoundTrip = time.Millisecond
		return f
	}
	const goal = "a turn at 1 ms of delay"
	rows := []scenario.Row{row(scenario.Far, library.Ours, far(500)), row(scenario.Far, library.OursAsync, far(900))}
	if g := find(t, rows, goal); g.Met != Met || g.Measured != "1.11 (confirmed 2.00)" {
		t.Errorf("%+v", g)
	}
	rows[1] = row(scenario.Far, library.OursAsync, far(800))
	if g := find(t, rows, goal); g.Met != Missed {
		t.Errorf("%+v", g)
	}
}

func TestLeasesWithAnotherTTLDoNotCount(t *testing.T) {
	leases := row(scenario.Point(scenario.Leases, heldLeases), library.Ours, scenario.Figures{ClientLoad: 0.01, Heap: 3000 * heldLeases})
	const cpu = "10,000 held leases, TTL 30 s: CPU of the client"
	if g := find(t, []scenario.Row{leases}, cpu); g.Met != NotMeasured {
		t.Errorf("TTL unknown: %+v", g)
	}
	leases.Scenario.Spec = load.Spec{TTL: 30 * time.Second}
	if g := find(t, []scenario.Row{leases}, cpu); g.Met != Met {
		t.Errorf("CPU: %+v", g)
	}
	if g := find(t, []scenario.Row{leases}, "10,000 held leases, TTL 30 s: ≤ 2 KiB"); g.Met != Missed || g.Measured != "3000 bytes" {
		t.Errorf("bytes: %+v", g)
	}
}

func TestACurveIsFlatFromEndToEnd(t *testing.T) {
	point := func(x, perSecond float64) scenario.Row {
		r := row("", library.Ours, fast(perSecond, 0))
		r.Scenario.Curve, r.Scenario.X = scenario.Waiters, x
		return r
	}
	const flat = "turns/s from 1 to 5,000 waiters"
	rows := []scenario.Row{point(1, 100), point(100, 80)}
	if g := find(t, rows, flat); g.Met != NotMeasured {
		t.Errorf("without its end: %+v", g)
	}
	if g := find(t, append(rows, point(5000, 90)), flat); g.Met != Met || g.Measured != "0.80 (80 at 100, 100 at 1)" {
		t.Errorf("%+v", g)
	}
	if g := find(t, append(rows, point(5000, 70)), flat); g.Met != Missed {
		t.Errorf("%+v", g)
	}
}
