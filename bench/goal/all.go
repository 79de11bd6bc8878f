package goal

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/scenario"
)

// The limits, as the issue sets them.
const (
	ownOneRaw       = 0.9
	ownManyRaw      = 2.0
	clientTime      = 0.7
	redisTime       = 6.0 // µs
	redisTimes      = 2.0
	allocations     = 20
	farBest         = 1.0
	connections     = 8 + 1 // the subscription
	oneKeyBest      = 1.0
	localBest       = 20
	localP99        = 0.01
	localCommands   = 0.01
	ofHold          = 0.9
	processesBest   = 1.1
	p99Share        = 0.2
	unfair          = 1.1
	idealWait       = 1.4
	roundTrips      = 1.2
	asyncTrips      = 1.15
	commands        = 3
	leaseLoad       = 0.03
	leaseGoroutines = 10
	leaseBytes      = 2048
	flatness        = 0.75
)

// All judges all goals by the rows of one run. The best rival is the one with
// the most turns a second in that scenario.
func All(rows []scenario.Row) []Goal {
	t := table(rows)
	goals := []Goal{
		t.ownKeys(1.0, 1, 2),
		t.ownKeys(1.1, 4, 8),
		t.ownKeys(1.2, 16, 24),
		t.ownKeys(1.6, 64, 512),
		atLeast(ownOneRaw, "own keys, 1 goroutine: ≥ 0.9 × raw", t.against(scenario.OwnKeys(1), library.Raw)),
		atLeast(ownManyRaw, "own keys, 64 and 512 goroutines: ≥ 2 × raw",
			t.against(scenario.OwnKeys(64), library.Raw).as("64: "), t.against(scenario.OwnKeys(512), library.Raw).as("512: ")),
		t.newKeys(library.Ours),
		t.newKeys(library.OursAsync),
		atMost(clientTime, "own keys, from 4 goroutines on: client CPU a turn ≤ 0.7 × redislock's", t.clientTime()...),
		atMost(redisTime, scenario.Pipeline+": Redis's time to give it and take it back ≤ 6 µs", t.pipeline()),
		atMost(redisTimes, scenario.Pipeline+": Redis's time to give it and take it back ≤ 2 × redislock's", t.times(scenario.Pipeline, library.Redislock, redisMicros)),
		atMost(allocations, "own keys: taking a lock and giving it back makes ≤ 20 allocations", t.allocations()...),
		atLeast(farBest, "own keys, 64 goroutines, 1 and 5 ms of delay: ≥ 1.0 × the best rival",
			t.speed(scenario.OwnKeysAt(64, time.Millisecond), "1 ms: "), t.speed(scenario.OwnKeysAt(64, 5*time.Millisecond), "5 ms: ")),
		atMost(connections, "connections of a busy process: ≤ 8 and the subscription", t.connections()...),
	}
	for _, hold := range []time.Duration{0, time.Millisecond} {
		goals = append(goals, t.oneKey(hold)...)
	}
	goals = append(goals, t.local()...)
	const many = scenario.ManyProcesses
	return append(goals,
		atLeast(processesBest, many+": ≥ 1.1 × the best rival", t.speed(many, "")),
		atMost(p99Share, many+": p99 wait ≤ 1/5 of the best rival's", t.p99(many, "")),
		atMost(unfair, many+": most / fewest turns ≤ 1.1", t.fair(many, "")),
		atMost(idealWait, "one key, 16 goroutines, 1 ms held: p99 wait ≤ 1.4 × (16 × mean hold)", t.ideal(scenario.OneKey(16, time.Millisecond), 16)),
		atMost(roundTrips, "hand-over with 5 ms of delay: ≤ 1.2 round trips",
			t.ours(scenario.HandOver, "", "%.2f", func(f scenario.Figures) float64 { return f.HandOver })),
		atMost(asyncTrips, "a turn at 1 ms of delay with AsyncRelease: ≤ 1.15 round trips", t.trips()),
		atMost(commands, "client commands per contended turn: ≤ 3, at 1,000 waiters too", t.commands()...),
		t.leases("CPU of the client ≤ 3 % of a core", leaseLoad, "%.4f", func(f scenario.Figures) float64 { return f.ClientLoad }),
		t.leases("CPU of Redis ≤ 3 % of a core", leaseLoad, "%.4f", func(f scenario.Figures) float64 { return f.RedisLoad }),
		t.leases("≤ 10 goroutines", leaseGoroutines, "%.0f", func(f scenario.Figures) float64 { return f.Goroutines }),
		t.leases("≤ 2 KiB a lease", leaseBytes, "%.0f bytes", func(f scenario.Figures) float64 { return f.Heap / heldLeases }),
		atLeast(flatness, "turns/s from 1 to 1,000,000 keys: flat within 25 %", t.flat(scenario.Keys, 1, 1_000_000)),
		atLeast(flatness, "turns/s from 1 to 5,000 waiters: flat within 25 %", t.flat(scenario.Waiters, 1, 5000)),
	)
}

const heldLeases = 10_000

// table is the rows of a run.
type table []scenario.Row

func (t table) find(name, lib string) (scenario.Row, bool) {
	for _, r := range t {
		if r.Scenario.Name == name && r.Library == lib && r.Figures.Rounds > 0 {
			return r, true
		}
	}
	return scenario.Row{}, false
}

// ours is a figure of this library.
func (t table) ours(name, label, format string, figure func(scenario.Figures) float64) part {
	p := part{label: label, value: math.NaN(), format: format}
	if r, ok := t.find(name, library.Ours); ok {
		p.value = figure(r.Figures)
	}
	return p
}

// best returns the rival with the most turns a second.
func (t table) best(name string) (best scenario.Row, ok bool) {
	for _, lib := range append(library.Rivals(), library.Piped()...) { // the latter where they were measured
		if r, found := t.find(name, lib); found && (!ok || r.Figures.PerSecond.Median > best.Figures.PerSecond.Median) {
			best, ok = r, true
		}
	}
	return best, ok
}

func (t table) speed(name, label string) part {
	best, ok := t.best(name)
	if !ok {
		return part{label: label, value: math.NaN()}
	}
	p := t.against(name, best.Library)
	p.label = label
	p.note = " (" + best.Library + ")"
	return p
}

// against is how many times as many turns a second as another's ours has.
func (t table) against(name, lib string) part {
	return t.times(name, lib, func(f scenario.Figures) float64 { return f.PerSecond.Median })
}

// times is a figure of ours over that of another.
func (t table) times(name, lib string, figure func(scenario.Figures) float64) part {
	p := t.ours(name, "", "%.2f", figure)
	other, ok := t.find(name, lib)
	if !ok || figure(other.Figures) == 0 {
		p.value = math.NaN()
		return p
	}
	p.value /= figure(other.Figures)
	return p
}

// trips is how many round trips a caller's turn takes that does not await its release, beside one that does.
func (t table) trips() part {
	of := func(f scenario.Figures) float64 { return 1 / f.PerSecond.Median / f.RoundTrip.Seconds() }
	p := part{value: math.NaN(), format: "%.2f"}
	if r, ok := t.find(scenario.Far, library.OursAsync); ok {
		p.value = of(r.Figures)
	}
	if r, ok := t.find(scenario.Far, library.Ours); ok {
		p.note = fmt.Sprintf(" (confirmed %.2f)", of(r.Figures))
	}
	return p
}

func redisMicros(f scenario.Figures) float64 { return f.RedisTime.Median }

// pipeline is what a free lock costs Redis. How fast the machine is shows in what the
// scripts cost that it does without.
func (t table) pipeline() part {
	p := t.ours(scenario.Pipeline, "", "%.2f µs", redisMicros)
	if r, ok := t.find(scenario.Pipeline, library.OursByScripts); ok {
		p.note = fmt.Sprintf(" (by scripts %.2f)", redisMicros(r.Figures))
	}
	return p
}

// ownKeys judges the scenarios of own keys and so many goroutines by the best rival.
func (t table) ownKeys(limit float64, goroutines ...int) Goal {
	parts, numbers := make([]part, len(goroutines)), make([]string, len(goroutines))
	for i, n := range goroutines {
		numbers[i] = strconv.Itoa(n)
		parts[i] = t.speed(scenario.OwnKeys(n), numbers[i]+": ")
	}
	text := fmt.Sprintf("own keys, %s goroutines: ≥ %.1f × the best rival", strings.Join(numbers, " and "), limit)
	return atLeast(limit, text, parts...)
}

// newKeysBest are the goals for a new key in each turn, by the number of goroutines: releases that are awaited, and others.
var newKeysBest = map[int][2]float64{1: {1.1, 1.6}, 2: {1, 1.7}, 4: {1, 1.4}, 8: {1.05, 1.25}, 16: {1.05, 1.2}, 24: {1, 1.15}, 64: {1.1, 1.25}, 512: {1.1, 1.2}}

// newKeys judges how many of its goal's turns a way of this library makes, in the worst case.
func (t table) newKeys(lib string) Goal {
	which := 0
	if lib == library.OursAsync {
		which = 1
	}
	var parts []part
	for _, n := range scenario.Full().Goroutines {
		limit := newKeysBest[n][which]
		p := part{label: fmt.Sprintf("%d (%.2f): ", n, limit), value: math.NaN(), format: "%.2f of it"}
		best, ok := t.best(scenario.NewKeys(n))
		if mine, found := t.find(scenario.NewKeys(n), lib); ok && found {
			ratio := mine.Figures.PerSecond.Median / best.Figures.PerSecond.Median
			p.value, p.note = ratio/limit, fmt.Sprintf(" (%.2f × %s)", ratio, best.Library)
		}
		parts = append(parts, p)
	}
	return atLeast(1, lib+", a new key for each turn: turns/s, as the share that is reached of a multiple of the best rival's (in brackets: the multiple that was asked for, and that measured)", parts...)
}

func (t table) clientTime() (parts []part) {
	per := func(f scenario.Figures) float64 { return float64(f.ClientCPU) }
	for _, n := range scenario.Full().Goroutines {
		if n >= 4 { // with fewer, being woken takes most of the time, whatever the library does
			parts = append(parts, t.times(scenario.OwnKeys(n), library.Redislock, per).as(fmt.Sprintf("%d: ", n)))
		}
	}
	return parts
}

func (t table) allocations() (parts []part) {
	for _, n := range scenario.Full().Goroutines {
		parts = append(parts, t.ours(scenario.OwnKeys(n), fmt.Sprintf("%d: ", n), "%.1f", func(f scenario.Figures) float64 { return f.Allocs }))
	}
	return parts
}

// connections judges those that have the most to do: with keys that are free, and
// with one that is waited for, which takes a subscription.
func (t table) connections() (parts []part) {
	for _, name := range []string{scenario.OwnKeys(512), scenario.OneKey(512, 0), scenario.ManyProcesses, scenario.Service} {
		parts = append(parts, t.ours(name, name+": ", "%.0f", func(f scenario.Figures) float64 { return f.Connections }))
	}
	return parts
}

// p99 is our p99 wait over the best rival's. A rival with fewer turns may have
// a lower one, which the note tells.
func (t table) p99(name, label string) part {
	best, ok := t.best(name)
	p := t.ours(name, label, "%.3f", func(f scenario.Figures) float64 { return float64(f.P99) })
	if !ok || best.Figures.P99 == 0 {
		p.value = math.NaN()
		return p
	}
	mine := p.value
	p.value /= float64(best.Figures.P99)
	p.note = " (" + best.Library
	least := best
	for _, lib := range library.Rivals() {
		if r, ok := t.find(name, lib); ok && r.Figures.P99 < least.Figures.P99 {
			least = r
		}
	}
	if least.Library != best.Library {
		p.note += fmt.Sprintf("; the lowest has %s: %.3f", least.Library, mine/float64(max(least.Figures.P99, 1)))
	}
	p.note += ")"
	return p
}

func (t table) fair(name, label string) part {
	return t.ours(name, label, "%.2f", scenario.Figures.Unfairness)
}

func (t table) ideal(name string, n int) part {
	return t.ours(name, "", "%.2f", func(f scenario.Figures) float64 {
		return float64(f.P99) / float64(max(f.Held, 1)) / float64(n)
	})
}

// oneKey judges all scenarios of one key and one process.
func (t table) oneKey(hold time.Duration) []Goal {
	what := "one key, one process, empty"
	if hold > 0 {
		what = "one key, one process, 1 ms inside"
	}
	var speeds, waits, turns []part
	for _, n := range scenario.Full().Contenders {
		name, label := scenario.OneKey(n, hold), fmt.Sprintf("%d: ", n)
		speeds = append(speeds, t.speed(name, label))
		waits = append(waits, t.p99(name, label))
		turns = append(turns, t.fair(name, label))
	}
	return []Goal{
		atLeast(oneKeyBest, what+": ≥ 1.0 × the best rival", speeds...),
		atMost(p99Share, what+": p99 wait ≤ 1/5 of the best rival's", waits...),
		atMost(unfair, what+": most / fewest turns ≤ 1.1", turns...),
	}
}

// local judges turns that stay within a process.
func (t table) local() []Goal {
	const what = "one key, one process, 16 and 64 goroutines, empty"
	var speeds, waits, sent, holds []part
	for _, n := range []int{16, 64} {
		name, label := scenario.OneKey(n, 0), fmt.Sprintf("%d: ", n)
		speeds, waits = append(speeds, t.speed(name, label)), append(waits, t.p99(name, label))
		sent = append(sent, t.ours(name, label, "%.4f", func(f scenario.Figures) float64 { return f.Commands }))
	}
	for _, delay := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		holds = append(holds, t.ours(scenario.OneKeyAt(16, time.Millisecond, delay), fmt.Sprintf("%d ms: ", delay.Milliseconds()), "%.2f",
			func(f scenario.Figures) float64 { return f.PerSecond.Median * f.Held.Seconds() }))
	}
	return []Goal{
		atLeast(localBest, what+": ≥ 20 × the best rival", speeds...),
		atMost(localP99, what+": p99 wait ≤ 1/100 of the best rival's", waits...),
		atMost(localCommands, what+": ≤ 0.01 client commands a turn", sent...),
		atLeast(ofHold, "one key, 16 goroutines, 1 ms inside, 0, 1 and 5 ms of delay: ≥ 0.9 × 1 / mean hold", holds...),
	}
}

func (t table) commands() (parts []part) {
	per := func(f scenario.Figures) float64 { return f.Commands }
	for _, n := range scenario.Full().Contenders {
		parts = append(parts, t.ours(scenario.OneKey(n, 0), fmt.Sprintf("%d: ", n), "%.2f", per))
	}
	return append(parts,
		t.ours(scenario.ManyProcesses, "4 x 16: ", "%.2f", per),
		t.ours(scenario.Point(scenario.Waiters, 1000), "1,000 waiters: ", "%.2f", per))
}

func (t table) leases(text string, limit float64, format string, figure func(scenario.Figures) float64) Goal {
	name := scenario.Point(scenario.Leases, heldLeases)
	p := t.ours(name, "", format, figure)
	if r, ok := t.find(name, library.Ours); ok && r.Scenario.Spec.TTL != scenario.Full().LeaseTTL {
		p.value = math.NaN() // other leases than the goal speaks of
	}
	return atMost(limit, "10,000 held leases, TTL 30 s: "+text, p)
}

// flat is the least throughput of a curve over the highest, if the curve has
// both ends.
func (t table) flat(curve string, from, to float64) part {
	p := part{value: math.NaN(), format: "%.2f"}
	var xs, ys []float64
	for _, r := range t {
		if r.Scenario.Curve == curve && r.Library == library.Ours && r.Figures.Rounds > 0 {
			xs = append(xs, r.Scenario.X)
			ys = append(ys, r.Figures.PerSecond.Median)
		}
	}
	if slices.Contains(xs, from) && slices.Contains(xs, to) {
		low, high := slices.Index(ys, slices.Min(ys)), slices.Index(ys, slices.Max(ys))
		p.value = ys[low] / max(ys[high], 1)
		p.note = fmt.Sprintf(" (%.0f at %.0f, %.0f at %.0f)", ys[low], xs[low], ys[high], xs[high])
	}
	return p
}
