package scenario

import (
	"fmt"
	"time"

	"github.com/lockmw/kit/bench/door"
	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/load"
)

// The curves' names, which tell what is on their x axis.
const (
	Waiters   = "waiters"
	Keys      = "keys"
	Leases    = "held leases"
	Processes = "processes"
)

// The names of scenarios whose figures are goals.
const (
	ManyProcesses = "one key, 4 processes x 16"
	HandOver      = "hand-over, 5 ms delay"
	Service       = "a service: 4 processes x 8, 10,000 keys, 5 ms inside"
	Pipeline      = "a free lock, one pipeline"
	Far           = "new keys, 1, 1 ms delay"
)

// OwnKeys names the scenario of n goroutines with own keys.
func OwnKeys(n int) string { return fmt.Sprintf("own keys, %d", n) }

// OwnKeysAt names the scenario of n goroutines with own keys at a distance of delay.
func OwnKeysAt(n int, delay time.Duration) string { return at(OwnKeys(n), delay) }

func at(name string, delay time.Duration) string {
	return fmt.Sprintf("%s, %d ms delay", name, delay.Milliseconds())
}

// NewKeys names the scenario of n goroutines with a new key for each turn.
func NewKeys(n int) string { return fmt.Sprintf("new keys, %d", n) }

// OneKey names the scenario of n goroutines with one key, held for hold.
func OneKey(n int, hold time.Duration) string {
	if hold == 0 {
		return fmt.Sprintf("one key, %d, empty", n)
	}
	return fmt.Sprintf("one key, %d, %d ms inside", n, hold.Milliseconds())
}

// OneKeyAt names the scenario of n goroutines with one key, held for hold, at a distance of
// delay.
func OneKeyAt(n int, hold, delay time.Duration) string { return at(OneKey(n, hold), delay) }

// Point names the scenario that is the point x of a curve.
func Point(curve string, x int) string { return fmt.Sprintf("%s: %d", curve, x) }

// All returns everything that is measured, in the order of the report.
func All(s Sizes) []Scenario {
	var all []Scenario
	for _, group := range [][]Scenario{own(s), one(s), several(s), delayed(s), doors(s), pipeline(s), curves(s)} {
		all = append(all, group...)
	}
	return all
}

// of returns a scenario of one process, to be changed.
func (s Sizes) of(name string, spec load.Spec) Scenario {
	warm := s.Warm
	if spec.Goroutines >= 1000 {
		warm = max(warm, time.Second) // until all of them wait
	}
	return Scenario{
		Name: name, Libraries: library.Names(), Spec: spec, Processes: 1,
		Window: s.Window, Warm: warm, Rounds: s.Rounds,
	}
}

func own(s Sizes) (list []Scenario) {
	for _, n := range s.Goroutines {
		list = append(list, s.of(OwnKeys(n), load.Spec{Goroutines: n, Keys: load.Own}))
	}
	for _, n := range s.Goroutines {
		c := s.of(NewKeys(n), load.Spec{Goroutines: n, Keys: load.New})
		c.Libraries = append(append([]string{library.Ours, library.OursAsync}, library.Rivals()...), library.Piped()...)
		list = append(list, c)
	}
	return list
}

func one(s Sizes) (list []Scenario) {
	for _, hold := range []time.Duration{0, time.Millisecond} {
		for _, n := range s.Contenders {
			c := s.of(OneKey(n, hold), load.Spec{Goroutines: n, Keys: load.One, Hold: hold})
			if n >= manyContenders {
				c.Window *= 4 // or it would cut off the waits that it is to show
			}
			list = append(list, c)
		}
	}
	return list
}

const manyContenders = 500

func several(s Sizes) []Scenario {
	together := s.of(ManyProcesses, load.Spec{Goroutines: 16, Keys: load.One})
	zipf := s.of("10,000 keys, zipf, 4 processes x 16", load.Spec{Goroutines: 16, Keys: load.Zipf, KeyCount: 10_000})
	service := s.of(Service, load.Spec{Goroutines: 8, Keys: load.Drawn, KeyCount: 10_000, Hold: 5 * time.Millisecond})
	together.Processes, zipf.Processes, service.Processes = 4, 4, 4
	return []Scenario{together, zipf, service}
}

func delayed(s Sizes) (list []Scenario) {
	add := func(name string, delay time.Duration, spec load.Spec) {
		c := s.of(at(name, delay), spec)
		c.Proxied, c.Delay = true, delay
		list = append(list, c)
	}
	for _, delay := range s.Delays {
		add(OwnKeys(16), delay, load.Spec{Goroutines: 16, Keys: load.Own})
		add("one key, 16", delay, load.Spec{Goroutines: 16, Keys: load.One})
		add(OneKey(16, time.Millisecond), delay, load.Spec{Goroutines: 16, Keys: load.One, Hold: time.Millisecond})
		if delay > 0 { // without, the proxy alone is measured
			add(OwnKeys(64), delay, load.Spec{Goroutines: 64, Keys: load.Own})
		}
	}
	far := s.of(Far, load.Spec{Goroutines: 1, Keys: load.New})
	far.Libraries = append([]string{library.Ours, library.OursAsync}, library.Rivals()...)
	gin := s.of(at("through Gin, a new order each, 4", farAway), load.Spec{Goroutines: 4, Keys: load.New})
	gin.Libraries, gin.Doors = door.ThroughGin(), true // few at a time, or the machine would be measured
	for _, c := range []Scenario{far, gin} {
		c.Proxied, c.Delay = true, farAway
		list = append(list, c)
	}
	// Each goroutine has a Locker of its own, as if it were a process: what is
	// handed over has to pass through Redis. Held for long enough that the
	// others wait by then.
	over := s.of(HandOver, load.Spec{Goroutines: 4, Lockers: 4, Keys: load.One, Hold: 20 * time.Millisecond})
	over.Proxied, over.Delay = true, 5*time.Millisecond
	over.Window = max(over.Window, minHandOvers) // they are slow on purpose
	return append(list, over)
}

// farAway is a Redis in the next data centre.
const farAway = time.Millisecond

const minHandOvers = 500 * time.Millisecond

func doors(s Sizes) (list []Scenario) {
	for _, name := range door.Names() {
		own := s.of(fmt.Sprintf("%s, own keys, %d", name, s.Requests), load.Spec{Goroutines: s.Requests, Keys: load.Own})
		own.Libraries, own.Doors = []string{door.Bare(name), name}, true
		one := s.of(fmt.Sprintf("%s, one key, %d", name, s.Requests), load.Spec{Goroutines: s.Requests, Keys: load.One})
		one.Libraries, one.Doors = []string{name}, true
		list = append(list, own, one)
	}
	return list
}

// pipeline measures what a free lock costs Redis, and nothing else.
func pipeline(s Sizes) []Scenario {
	c := s.of(Pipeline, load.Spec{Replay: recorded})
	c.Libraries = []string{library.Ours, library.OursByScripts, library.Redislock, library.Raw}
	c.Window *= 2 // Redis's clock for its own time is the coarsest
	return []Scenario{c}
}

// recorded is how many turns are recorded: enough for keys that differ, and soon done.
const recorded = 1000

func curves(s Sizes) (list []Scenario) {
	add := func(curve string, x int, c Scenario) {
		c.Name, c.Curve, c.X = Point(curve, x), curve, float64(x)
		list = append(list, c)
	}
	for _, n := range s.Waiters {
		add(Waiters, n, s.of("", load.Spec{Goroutines: n + 1, Keys: load.One}))
	}
	for _, n := range s.Keys {
		// One goroutine, which nobody disturbs however few keys there are.
		c := s.of("", load.Spec{Goroutines: 1, Keys: load.Drawn, KeyCount: n})
		c.Libraries = []string{library.Ours, library.Raw}
		add(Keys, n, c)
	}
	for _, n := range s.Processes {
		c := s.of("", load.Spec{Goroutines: 16, Keys: load.One})
		c.Processes, c.Rounds = n, min(c.Rounds, 2) // or a run takes too long
		add(Processes, n, c)
	}
	for _, n := range s.Leases {
		c := s.of("", load.Spec{Leases: n, TTL: s.LeaseTTL})
		c.Libraries, c.Rounds = []string{library.Ours}, 1
		// Leases are renewed every third of the TTL, and were taken at about
		// the same time: the window has one renewal of each in its middle.
		c.Warm, c.Window = s.LeaseTTL/6, s.LeaseTTL/3
		add(Leases, n, c)
	}
	return list
}
