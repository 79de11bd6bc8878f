package report

import (
	"testing"
	"time"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/load"
	"github.com/lockmw/kit/bench/scenario"
	"github.com/lockmw/kit/internal/test/golden"
)

func example() Report {
	figures := func(perSecond float64) scenario.Figures {
		return scenario.Figures{
			Rounds: 3, PerSecond: scenario.Spread{Median: perSecond, Least: perSecond - 10, Most: perSecond + 10},
			P50: 80 * time.Microsecond, P99: 1234567, Max: 2 * time.Second, Most: 100, Fewest: 98,
			Commands: 2, Calls: 10, Bytes: 600, Allocs: 87, ClientCPU: 40 * time.Microsecond, RedisCPU: 800,
			RedisTime: scenario.Spread{Median: perSecond / 2000, Least: perSecond / 2010, Most: perSecond / 1990}, Connections: 8,
			HandOver: 1.04, ClientLoad: 0.012, RedisLoad: 0.02, Goroutines: 6, Heap: 1.5e7,
		}
	}
	broken := scenario.Row{Scenario: scenario.Scenario{Name: scenario.HandOver}, Library: library.Redsync, Err: "child: exit status 1"}
	failed := scenario.Row{Scenario: scenario.Scenario{Name: scenario.HandOver}, Library: library.Ours, Figures: figures(30)}
	failed.Figures.Errors, failed.Figures.Error = 2, "lock not acquired"
	rows := []scenario.Row{
		{Scenario: scenario.Scenario{Name: scenario.OwnKeys(1)}, Library: library.Ours, Figures: figures(12345)},
		{Scenario: scenario.Scenario{Name: scenario.OwnKeys(1)}, Library: library.Raw, Figures: figures(13000)},
		failed, broken,
	}
	for _, x := range []float64{1, 10, 5000} {
		rows = append(rows, scenario.Row{Scenario: scenario.Scenario{Curve: scenario.Waiters, X: x}, Library: library.Ours, Figures: figures(20000 + x)})
	}
	rows = append(rows, scenario.Row{
		Scenario: scenario.Scenario{Name: scenario.Point(scenario.Leases, 10000), Curve: scenario.Leases, X: 10000, Spec: load.Spec{TTL: 30 * time.Second}},
		Library:  library.Ours, Figures: figures(1),
	})
	for _, name := range []string{library.Ours, library.OursByScripts, library.Redislock} {
		rows = append(rows, scenario.Row{
			Scenario: scenario.Scenario{Name: scenario.Pipeline, Spec: load.Spec{Replay: 1000}},
			Library:  name, Figures: figures(10000 + 500*float64(len(name))),
		})
	}
	return Report{
		Env:     Env{CPU: "some CPU", Cores: 2, System: "linux/amd64", Go: "go1.26", Redis: "7.0", Commit: "abc", Load: "0.10", Versions: []string{"a v1", "b v2"}},
		Command: "make bench", Kind: "An example.", Rows: rows,
	}
}

func TestMarkdownIsAsBefore(t *testing.T) {
	golden.Check(t, "testdata/results.md", string(example().Markdown()))
}

func TestDurationsHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 12345: "12.3 µs", 4560 * time.Microsecond: "4.56 ms",
		250 * time.Millisecond: "250 ms", 2 * time.Second: "2.00 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestNumbersHaveCommas(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999.6: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestTheEnvironmentIsKnown(t *testing.T) {
	if e := ReadEnv("7.0"); e.CPU == "" || e.Commit == "" || e.Cores < 1 {
		t.Errorf("%+v", e)
	}
}
