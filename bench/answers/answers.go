// Package answers measures what an answer of lockmw.Do costs: one that is given again beside a plain GET, and one that is made beside
// a lock that is taken and given back.
//
// Start at Run; ways.go has what is measured.
package answers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/bench/scenario"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Sizes say how much is measured.
type Sizes struct {
	Rounds  int           // in which all ways take turns; an odd number has one in the middle
	Window  time.Duration // of each way in each round
	Warm    time.Duration // before it
	Callers []int         // who ask at the same time for an answer that is there
	Delay   time.Duration // that is added to a round trip, where Redis is away
}

// Full returns the sizes whose figures are written down.
func Full() Sizes {
	return Sizes{Rounds: 7, Window: time.Second, Warm: 200 * time.Millisecond, Callers: []int{1, 8, 64}, Delay: 2500 * time.Microsecond}
}

// Quick returns small sizes. They show that everything works.
func Quick() Sizes {
	return Sizes{Rounds: 1, Window: 100 * time.Millisecond, Warm: 50 * time.Millisecond, Callers: []int{1, 8}, Delay: 2500 * time.Microsecond}
}

// The goals. A first call's is for a lock that is not handed over, and without Uncertain.
const (
	replayGoal = 0.7 // times a GET's turns at least
	firstGoal  = 1.1 // times a lock's time at most
)

// A comparison is several ways to do something, all beside the first of them.
type comparison struct {
	title   string
	ways    []way
	callers int
	delay   time.Duration
	proxied bool
	inTurns bool                     // the ratio is of the turns a second, and otherwise of the time that one takes
	goal    func(ratio float64) bool // nil: there is none
	goalIs  string
	judged  string // the way that the goal is for
}

// Run measures, and prints what the rounds have shown to w, with a line for each round to say.
func Run(ctx context.Context, s Sizes, w io.Writer, say func(string)) error {
	server, err := redistest.Start()
	if err != nil {
		return err
	}
	defer server.Close()
	proxy, err := faultproxy.New(server.Addr())
	if err != nil {
		return err
	}
	defer proxy.Close()
	for _, c := range comparisons(s) {
		addr := server.Addr()
		if c.proxied {
			addr = proxy.Addr()
			proxy.Delay(faultproxy.Both, c.delay/2)
		}
		figures, trip, err := c.measure(ctx, s, addr, say)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		c.print(w, figures, trip)
	}
	return nil
}

func comparisons(s Sizes) (list []comparison) {
	for _, n := range s.Callers {
		list = append(list, comparison{
			title: "an answer that is there, asked for by " + strconv.Itoa(n), ways: replays(), callers: n, inTurns: true,
			goal: func(ratio float64) bool { return ratio >= replayGoal }, goalIs: fmt.Sprintf("≥ %.1f", replayGoal), judged: replay,
		})
	}
	first := comparison{
		title: "a key that nobody has asked for, one caller", ways: firsts(), callers: 1,
		goal: func(ratio float64) bool { return ratio <= firstGoal }, goalIs: fmt.Sprintf("≤ %.1f", firstGoal), judged: making,
	}
	list = append(list, first)
	first.proxied, first.delay = true, s.Delay
	first.title += fmt.Sprintf(", a proxy adds %v to a round trip", s.Delay)
	return append(list, first)
}

// measure has the ways take turns, round by round, each time with another one first. It returns the turns a second of each way by rounds, and how long a PING
// takes.
func (c comparison) measure(ctx context.Context, s Sizes, addr string, say func(string)) (figures [][]float64, trip time.Duration, err error) {
	client := redis.NewClient(redistest.Options(addr))
	defer client.Close()
	if trip, err = scenario.RoundTrip(ctx, addr); err != nil {
		return nil, 0, err
	}
	figures = make([][]float64, len(c.ways))
	for round := range s.Rounds {
		for i := range c.ways {
			at := (i + round) % len(c.ways)
			if err := client.FlushAll(ctx).Err(); err != nil {
				return nil, 0, err
			}
			perSecond, err := c.ways[at].measure(ctx, s, addr, c.callers)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %w", c.ways[at].name, err)
			}
			figures[at] = append(figures[at], perSecond)
			say(fmt.Sprintf("%d/%d  %s, %s: %.0f a second", round+1, s.Rounds, c.title, c.ways[at].name, perSecond))
		}
	}
	return figures, trip, nil
}

// measure returns how many turns a second so many callers take, by the median of what a turn takes: what else a machine does strikes a few turns, each
// of them for long.
func (w way) measure(ctx context.Context, s Sizes, addr string, callers int) (perSecond float64, err error) {
	turn, end, err := w.open(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	begin := time.Now().Add(s.Warm)
	var all sync.WaitGroup
	took, errs := make([][]float64, callers), make([]error, callers)
	going, stop := context.WithCancel(ctx)
	defer stop()
	for i := range callers {
		all.Go(func() {
			defer stop() // one that has failed ends the others, and so does one whose time is over
			for n, last := 0, begin.Add(s.Window); going.Err() == nil; n++ {
				began := time.Now()
				if errs[i] = turn(i, n); errs[i] != nil {
					return
				}
				if now := time.Now(); now.After(begin) {
					took[i] = append(took[i], now.Sub(began).Seconds())
					if now.After(last) {
						return
					}
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(ctx.Err(), errors.Join(errs...)); err != nil {
		return 0, err
	}
	return float64(callers) / scenario.SpreadOf(slices.Concat(took...)).Median, nil
}

// print writes a table: the median of each way, and that of its ratios to the first way in the same round, with the least and the most of them.
func (c comparison) print(w io.Writer, figures [][]float64, trip time.Duration) {
	unit := "µs each"
	if c.inTurns {
		unit = "a second"
	}
	fmt.Fprintf(w, "\n%s; a PING takes %v; medians of %d rounds (least to most)\n", c.title, trip.Round(time.Microsecond), len(figures[0]))
	fmt.Fprintf(w, "%-46s %10s   × the first\n", "", unit)
	for i, of := range figures {
		value := scenario.SpreadOf(of).Median
		if !c.inTurns {
			value = 1e6 / value
		}
		ratios := make([]float64, len(of))
		for round := range of {
			ratios[round] = of[round] / figures[0][round]
			if !c.inTurns {
				ratios[round] = 1 / ratios[round]
			}
		}
		ratio := scenario.SpreadOf(ratios)
		fmt.Fprintf(w, "%-46s %10.0f   %.2f (%.2f to %.2f)%s\n", c.ways[i].name, value, ratio.Median, ratio.Least, ratio.Most, c.verdict(c.ways[i].name, ratio.Median))
	}
}

// verdict says whether the goal is met by the way that it is for.
func (c comparison) verdict(name string, ratio float64) string {
	switch {
	case name != c.judged:
		return ""
	case c.goal(ratio):
		return ": the goal " + c.goalIs + " is met"
	}
	return ": the goal " + c.goalIs + " is missed"
}
