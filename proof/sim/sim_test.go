package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Seeds that once failed do not any more.
func TestSeedsThatOnceFailed(t *testing.T) {
	file, err := os.Open("seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		seed, why, _ := strings.Cut(lines.Text(), " ")
		if seed == "" || seed == "#" {
			continue
		}
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(seed, func(t *testing.T) {
			for _, wrong := range see(t, n).Result.Wrong {
				t.Errorf("%s (%s)", wrong, why)
			}
		})
	}
}

// fixed are the seeds that each make test takes. New ones are for the night: a test is not to fail for what nobody has changed.
const fixed = 20

// TestSimulate takes seeds from 1, or from SIM_FROM, for as long as SIM_FOR says, with a process for each core; or the one of SIM_SEED,
// which is made smaller if it fails. With SIM_FAILFAST it ends at the first seed that fails.
func TestSimulate(t *testing.T) {
	if seed := number(t, "SIM_SEED", 0); seed > 0 {
		again(t, seed)
		return
	}
	var long time.Duration
	if text := os.Getenv("SIM_FOR"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	from := number(t, "SIM_FROM", 1)
	if step := number(t, "SIM_STEP", 0); step > 0 { // one of several processes
		tell := json.NewEncoder(os.Stdout)
		began := time.Now()
		for seed := from; seed == from || time.Since(began) < long; seed += step {
			if err := tell.Encode(seen{Seed: seed, Begins: true}); err != nil {
				t.Fatal(err)
			}
			if err := tell.Encode(see(t, seed)); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	all := total{Result: Result{Met: make(Met)}}
	began := time.Now()
	if long == 0 {
		for seed := from; seed < from+fixed; seed++ {
			all.add(t, see(t, seed))
		}
	} else {
		onEachCore(t, from, long, func(s seen) bool {
			all.add(t, s)
			return s.Result.Wrong == nil || os.Getenv("SIM_FAILFAST") == ""
		})
	}
	took := time.Since(began)
	t.Logf("%d seeds from %d: %d calls, %d holds, %d turns, %d faults, %d changes of settings, %d calls in shadow or off; %v of their time in %v: %.1f million turns and %.0f faults an hour",
		all.seeds, from, all.Calls, all.Holds, all.Turns, all.Faults, all.Changes, all.Frees, all.Took, took, float64(all.Turns)/took.Hours()/1e6, float64(all.Faults)/took.Hours())
	if long > 0 {
		t.Logf("calls while something failed\n%v", all.Met)
		empty := all.Met.empty()
		t.Logf("%d cells are empty: %q", len(empty), empty[:min(20, len(empty))])
	}
}

// A seen is what came of a seed.
type seen struct {
	Seed   uint64
	Begins bool // it has only begun
	Result Result
}

// seedMost is how long a seed may take, some hundred times what it needs. One that takes longer does not end: the bubble's clock stands
// still, or something waits for ever. It is counted in ticks of this process, so one that gets little time of the machine has more.
const (
	seedMost = 3 * time.Minute
	seedTick = 100 * time.Millisecond
)

// see carries a seed out.
func see(t *testing.T, seed uint64) seen {
	t.Helper()
	over := make(chan struct{})
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(over)
	watch.Go(func() {
		for range seedMost / seedTick {
			select {
			case <-over:
				return
			case <-time.After(seedTick):
			}
		}
		debug.SetTraceback("all") // among all goroutines is the one that is to blame
		panic(fmt.Sprintf("seed %d does not end", seed))
	})
	return seen{Seed: seed, Result: Run(t, NewPlan(seed))}
}

// A total is what came of all seeds.
type total struct {
	Result

	seeds int
}

func (a *total) add(t *testing.T, s seen) {
	t.Helper()
	r := s.Result
	a.seeds++
	a.Calls, a.Holds, a.Turns = a.Calls+r.Calls, a.Holds+r.Holds, a.Turns+r.Turns
	a.Faults, a.Took = a.Faults+r.Faults, a.Took+r.Took
	a.Changes, a.Frees = a.Changes+r.Changes, a.Frees+r.Frees
	a.Met.add(r.Met)
	for _, wrong := range r.Wrong {
		t.Errorf("seed %d: %s", s.Seed, wrong)
	}
}

// again carries a seed out once more, and says what of it is enough for it to fail.
func again(t *testing.T, seed uint64) {
	t.Helper()
	p := NewPlan(seed)
	r := Run(t, p)
	t.Logf("%d calls, %d holds, %d changes of settings, %v of its time", r.Calls, r.Holds, r.Changes, r.Took)
	for _, wrong := range r.Wrong {
		t.Error(wrong)
	}
	if r.Wrong == nil {
		return
	}
	const tries = 3 // what goroutines do in one instant has no order
	fails := sorts(r.Wrong)
	smallest := Shrink(p, func(p Plan) bool {
		for range tries {
			if slices.ContainsFunc(sorts(Run(t, p).Wrong), func(sort string) bool { return slices.Contains(fails, sort) }) {
				return true
			}
		}
		return false
	})
	t.Logf("enough for that: %s", smallest)
}

// sorts returns what is wrong without times, numbers, names and what keys hold.
func sorts(wrong []string) (all []string) {
	for _, text := range wrong {
		_, what, _ := strings.Cut(text, ": ") // behind the moment
		all = append(all, digits.ReplaceAllString(quoted.ReplaceAllString(what, "#"), "#"))
	}
	return all
}

var (
	digits = regexp.MustCompile(`[a-z]?\d[\d.]*[a-zµ]*`)
	quoted = regexp.MustCompile(`"[^"]*"`) // what a key holds, such as a token
)

// number reads a number that the environment gives.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A smaller plan leaves out one thing, and the smallest one that still fails is found.
func TestShrink(t *testing.T) {
	p := NewPlan(63)
	p.Gaps = time.Millisecond
	least := Shrink(p, func(p Plan) bool {
		return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Unread })
	})
	if least.Gaps != 0 || len(least.Faults) != 1 || least.Turns != 1 || len(least.Processes) != 1 || len(least.Processes[0].Callers) != 1 || len(least.Processes[0].Callers[0].Wishes) != 1 {
		t.Errorf("%s, want one fault, one process, one caller, one wish, one turn", least)
	}
	if len(p.Faults) < 2 {
		t.Errorf("the plan had %d faults, want some that are left out", len(p.Faults))
	}
}
