// Package scenario says what is measured, and measures it.
//
// Start at tables.go for what; run.go measures one, rounds.go all of them, and
// figures.go says what the rounds have shown.
package scenario

import (
	"time"

	"github.com/lockmw/kit/bench/load"
)

// A Scenario is one thing that is measured, for several libraries side by
// side.
type Scenario struct {
	Name      string
	Libraries []string  // or doors, where Doors is set
	Doors     bool      // Libraries names doors
	Spec      load.Spec // of each process
	Processes int
	Window    time.Duration // that is measured
	Warm      time.Duration // before that
	Proxied   bool          // through the proxy
	Delay     time.Duration // that the proxy adds to each round trip
	Rounds    int

	Curve string  // it is a point of this curve. Empty: it is not
	X     float64 // the point
}

// Sizes says how large everything is.
type Sizes struct {
	Window     time.Duration // of one measurement
	Warm       time.Duration // before it
	Rounds     int
	Goroutines []int // that have own keys
	Contenders []int // for one key
	Delays     []time.Duration
	Requests   int // that are under way at a door
	Waiters    []int
	Keys       []int
	Leases     []int
	LeaseTTL   time.Duration
	Processes  []int
}

// Full returns the sizes of a full run.
func Full() Sizes {
	return Sizes{
		Window:     time.Second,
		Warm:       300 * time.Millisecond,
		Rounds:     3,
		Goroutines: []int{1, 2, 4, 8, 16, 24, 64, 512},
		Contenders: []int{2, 16, 64, 512},
		Delays:     []time.Duration{0, time.Millisecond, 5 * time.Millisecond},
		Requests:   16,
		Waiters:    []int{1, 10, 100, 1000, 5000},
		Keys:       []int{1, 10, 100, 1000, 10_000, 100_000, 1_000_000},
		Leases:     []int{1, 100, 1000, 10_000, 50_000},
		LeaseTTL:   30 * time.Second,
		Processes:  []int{1, 2, 4, 8, 16},
	}
}

// Quick returns sizes with which a run takes about a minute. It shows that
// everything works, and figures that are good for nothing else.
func Quick() Sizes {
	s := Full()
	s.Window, s.Warm, s.Rounds = 150*time.Millisecond, 100*time.Millisecond, 1
	s.Goroutines, s.Contenders = []int{1, 4, 24, 64, 512}, []int{2, 16, 512}
	s.Delays = []time.Duration{0, 5 * time.Millisecond}
	s.Waiters, s.Keys, s.Leases, s.Processes = []int{1, 100, 1000}, []int{1, 1000, 1_000_000}, []int{1, 100, 1000}, []int{1, 2, 4}
	s.LeaseTTL = 2 * time.Second
	return s
}
