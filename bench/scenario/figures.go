package scenario

import (
	"math"
	"slices"
	"time"
)

// A Spread is a figure over several rounds.
type Spread struct{ Median, Least, Most float64 }

// Figures are what the rounds of a measurement have shown: medians, except for
// what is named a maximum. Per turn, where not said otherwise.
type Figures struct {
	Rounds    int
	Turns     int64 // of all rounds
	PerSecond Spread

	P50, P99 time.Duration // waits
	Max      time.Duration // wait, of all rounds
	Most     float64       // turns of one goroutine
	Fewest   float64       // likewise

	Commands  float64 // sent by clients
	Calls     float64 // made by scripts
	Bytes     float64
	Allocs    float64
	ClientCPU time.Duration
	RedisCPU  time.Duration
	RedisTime Spread // the same, in µs

	Connections float64 // to Redis: the most of one process at a time

	Held       time.Duration // mean
	HandOver   float64       // round trips from a release to the next entry, where somebody waited
	RoundTrip  time.Duration
	ClientLoad float64 // share of a core
	RedisLoad  float64 // share of a core
	Goroutines float64 // of held leases
	Heap       float64 // bytes, of held leases

	Errors int64 // of all rounds
	Error  string
}

// Unfairness returns the most turns of a goroutine over the fewest. A
// difference of one turn is none: the window's ends cut a round of turns
// somewhere. It is infinite where a goroutine got no turn.
func (f Figures) Unfairness() float64 {
	switch {
	case f.Most-f.Fewest <= 1:
		return 1
	case f.Fewest == 0:
		return math.Inf(1)
	}
	return f.Most / f.Fewest
}

// FiguresOf returns the figures of one measurement's rounds.
func FiguresOf(rounds []Seen) Figures {
	of := func(figure func(Seen) float64) float64 { return spread(rounds, figure).Median }
	perTurn := func(figure func(Seen) float64) float64 {
		return of(func(s Seen) float64 { return figure(s) / float64(max(s.Turns, 1)) })
	}
	f := Figures{
		Rounds:    len(rounds),
		PerSecond: spread(rounds, func(s Seen) float64 { return float64(s.Turns) / s.Window.Seconds() }),
		P50:       time.Duration(of(func(s Seen) float64 { return float64(s.Waits.Quantile(0.5)) })),
		P99:       time.Duration(of(func(s Seen) float64 { return float64(s.Waits.Quantile(0.99)) })),
		Most:      of(func(s Seen) float64 { return float64(s.Most) }),
		Fewest:    of(func(s Seen) float64 { return float64(s.Fewest) }),

		Commands:  perTurn(func(s Seen) float64 { return float64(s.Commands) }),
		Calls:     perTurn(func(s Seen) float64 { return float64(max(s.Redis.Calls-s.Commands, 0)) }),
		Bytes:     perTurn(func(s Seen) float64 { return float64(s.Redis.Bytes) }),
		Allocs:    perTurn(func(s Seen) float64 { return float64(s.Allocs) }),
		ClientCPU: time.Duration(perTurn(func(s Seen) float64 { return float64(s.CPU) })),
		RedisCPU:  time.Duration(perTurn(func(s Seen) float64 { return float64(s.Redis.CPU) })),
		RedisTime: spread(rounds, func(s Seen) float64 {
			return float64(s.Redis.CPU) / float64(time.Microsecond) / float64(max(s.Turns, 1))
		}),
		Held: time.Duration(perTurn(func(s Seen) float64 { return float64(s.Held) })),

		Connections: of(func(s Seen) float64 { return float64(s.Connections) }),

		RoundTrip:  time.Duration(of(func(s Seen) float64 { return float64(s.RoundTrip) })),
		ClientLoad: of(func(s Seen) float64 { return s.CPU.Seconds() / s.Window.Seconds() }),
		RedisLoad:  of(func(s Seen) float64 { return s.Redis.CPU.Seconds() / s.Window.Seconds() }),
		Goroutines: of(func(s Seen) float64 { return float64(s.Goroutines) }),
		Heap:       of(func(s Seen) float64 { return float64(s.Heap) }),
		HandOver: of(func(s Seen) float64 {
			return float64(s.Gaps.Quantile(0.5)) / float64(max(s.RoundTrip, 1))
		}),
	}
	for _, s := range rounds {
		f.Turns += s.Turns
		f.Max = max(f.Max, s.Waits.Max)
		f.Errors += s.Errors
		if f.Error == "" {
			f.Error = s.Error
		}
	}
	return f
}

// spread returns the spread of a figure over the rounds.
func spread(rounds []Seen, figure func(Seen) float64) Spread {
	all := make([]float64, len(rounds))
	for i, s := range rounds {
		all[i] = figure(s)
	}
	return SpreadOf(all)
}

// SpreadOf returns the median of values, and the least and the most of them. Of an even number the lower one in the middle is the median.
// Without values it is the zero Spread.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Spread{Median: sorted[(len(sorted)-1)/2], Least: sorted[0], Most: sorted[len(sorted)-1]}
}
