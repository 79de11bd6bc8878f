package sim

import (
	"bufio"
	"context"
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

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/lockmw"
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
	least := Shrink(p, func(p Plan) bool {
		return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Unread })
	})
	if len(least.Faults) != 1 || least.Turns != 1 || len(least.Processes) != 1 || len(least.Processes[0].Callers) != 1 || len(least.Processes[0].Callers[0].Wishes) != 1 {
		t.Errorf("%s, want one fault, one process, one caller, one wish, one turn", least)
	}
	if len(p.Faults) < 2 {
		t.Errorf("the plan had %d faults, want some that are left out", len(p.Faults))
	}
}

// noPrint is what Redis gets of no fingerprint.
const noPrint = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"

// rewrites has the answers of a1 be others, which are given to whoever comes: change gets the fingerprint of one and its text, and returns those of another;
// no fingerprint leaves it as it is.
func rewrites(change func(mark, text string) (string, string)) func(*world) {
	return func(w *world) {
		const key = "lock:{a1}:answer"
		for range 2000 {
			time.Sleep(17 * time.Millisecond)
			words := strings.SplitN(w.plain.Get(context.Background(), key).Val(), " ", 4)
			if len(words) < 4 || words[1] == "9000000000000000" {
				continue
			}
			mark, text := change(words[2], words[3])
			if mark == "" {
				continue
			}
			w.plain.Set(context.Background(), key, strings.Join([]string{words[0], "9000000000000000", mark, text}, " "), time.Hour)
		}
	}
}

// What must not be is noticed: a plan without faults is fine, and not with something bad beside it that the judge does not know of.
func TestTheJudgeNotices(t *testing.T) {
	plan := func(w Wish, callers int) Plan {
		w.Policy.Wait, w.Work = time.Minute, 20*time.Second
		p := Plan{Seed: 1, Turns: 8}
		for i := range callers {
			p.Processes = append(p.Processes, Process{Callers: []Caller{{Name: i, Wishes: []Wish{w}}}})
		}
		return p
	}
	two := plan(Wish{Kind: mutex, Keys: []string{"m0"}}, 2)
	three := plan(Wish{Kind: mutex, Keys: []string{"m0"}}, 3)
	for i := range three.Processes {
		three.Processes[i].Callers[0].Wishes[0].Work = time.Second
	}
	opens := plan(Wish{Kind: mutex, Keys: []string{"m0"}, Policy: lockmw.Policy{FailOpen: true}}, 2)
	stays := plan(Wish{Kind: minHold, Keys: []string{"m0"}, Policy: lockmw.Policy{MinHold: 40 * time.Second}}, 2)
	permits := plan(Wish{Kind: permit, Keys: []string{"p0"}, Policy: lockmw.Policy{Permits: 2}}, 3)
	once := plan(Wish{Kind: noted}, 2)
	answers := plan(Wish{Kind: flight, Keys: []string{"a1"}, Retain: 2 * time.Second}, 2)
	prints := plan(Wish{Kind: flight, Keys: []string{"a1"}, Retain: 2 * time.Second}, 2)
	for i := range 2 {
		answers.Processes[i].Callers[0].Pause, prints.Processes[i].Callers[0].Pause = 10*time.Second, 10*time.Second
	}
	prints.Processes[1].Callers[0].Wishes[0].Print = "other"
	set := plan(Wish{Kind: mutex, Keys: []string{"m0"}, Policy: lockmw.Policy{Name: "m"}}, 2)
	for i := range set.Processes {
		set.Processes[i].Service, set.Processes[i].Reads, set.Processes[i].MayOff = "sim0", readsRedis|readsFile, true
	}
	set.Changes = []Change{{Pattern: "sim0/other", Set: Fields{Wait: none}}} // for nobody here
	alone := set
	alone.Processes = set.Processes[:1] // nothing is handed over there
	pauses := plan(Wish{Kind: mutex, Keys: []string{"m0"}}, 1)
	pauses.Processes[0].Callers[0].Pause = 10 * time.Second
	trial := plan(Wish{Kind: mutex, Keys: []string{"m0"}}, 2)
	trial.Turns, trial.Changes = 40, set.Changes
	for i := range trial.Processes {
		w := &trial.Processes[i].Callers[0].Wishes[0]
		w.Work, w.Policy = time.Second, lockmw.Policy{Name: "m", Shadow: true, Wait: 2 * time.Second}
		trial.Processes[i].Service, trial.Processes[i].Reads = "sim0", readsRedis
	}
	for _, p := range []Plan{two, three, opens, permits, set, trial} {
		if r := Run(t, p); r.Wrong != nil || r.Holds+r.Frees != p.Turns*len(p.Processes) || r.Changes != len(p.Changes) {
			t.Errorf("%v, %d holds, %d changes, want nothing wrong, and all, of %s", r.Wrong, r.Holds, r.Changes, p)
		}
	}
	says := func(text string) func(*world) {
		return func(w *world) { w.plain.HSet(context.Background(), settingsKey, "sim0/m", text) }
	}
	if r := Run(t, once); r.Wrong != nil || r.Holds < 2 || r.Holds > once.Turns {
		t.Errorf("%v, %d holds, want nothing wrong, and one for a turn at most, of %s", r.Wrong, r.Holds, once)
	}
	for _, p := range []Plan{answers, prints} {
		if r := Run(t, p); r.Wrong != nil || r.Holds < 2 {
			t.Errorf("%v, %d holds, want nothing wrong, and several, of %s", r.Wrong, r.Holds, p)
		}
	}
	again := func(what func()) {
		for range 2000 {
			time.Sleep(17 * time.Millisecond)
			what()
		}
	}
	for name, tc := range map[string]struct {
		plan Plan
		bad  func(w *world)
		says string
	}{
		"Redis forgets, and nobody says so": {two, func(w *world) {
			again(func() { w.plain.Del(context.Background(), "lock:{m0}") })
		}, "is held twice"},
		"the clock jumps ahead, and nobody says so": {two, func(w *world) {
			again(func() { w.server.ahead(jump) })
		}, "it was lost, and nothing was wrong with Redis"},
		"a third holder of two permits": {permits, func(w *world) {
			again(func() { w.plain.FlushAll(context.Background()) })
		}, "p0 has 2 permits, and process"},
		"the last fence is not the highest": {two, func(w *world) {
			again(func() {
				if time.Since(w.began) < 20*time.Second {
					w.plain.Set(context.Background(), "lock:{m0}:fence", "9000000000000000", time.Second)
					w.plain.Del(context.Background(), "lock:{m0}")
				} else {
					w.plain.FlushAll(context.Background())
				}
			})
		}, "the fence of m0 fell"},
		"a key is left": {two, func(w *world) {
			w.plain.Set(context.Background(), "lock:{m9}", "x.y:1", time.Hour)
		}, "is left"},
		"a lock is lost, and nobody says so": {two, func(w *world) {
			again(func() { w.plain.Del(context.Background(), "lock:{m0}") })
		}, "it was lost, and nothing was wrong with Redis"},
		"nobody has a lock, and nobody gets it": {two, func(w *world) {
			w.plain.Set(context.Background(), "lock:{m0}", "another program's", 3*time.Minute)
		}, "nobody had the lock for"},
		"another has a lock before MinHold is over": {stays, func(w *world) {
			again(func() {
				w.judge.mu.Lock()
				cools := time.Now().Before(w.judge.stays["m0"])
				w.judge.mu.Unlock()
				if cools {
					w.plain.Del(context.Background(), "lock:{m0}")
				}
			})
		}, "m0 was to stay taken until"},
		"what was noted and kept is deleted": {once, func(w *world) {
			again(func() {
				for turn := range once.Turns {
					w.plain.Del(context.Background(), fmt.Sprintf("lock:{u%d}:answer", turn))
				}
			})
		}, "begins for the time 2"},
		"an intent is there of work that never began": {once, func(w *world) {
			w.plain.Set(context.Background(), "lock:{u0}:answer", "begun 7 1 "+noPrint+" 3600000000 1 json ", time.Hour)
		}, "work 7 of u0 is noted at the end, and never began"},
		"a call is told of such work": {once, func(w *world) {
			w.plain.Set(context.Background(), "lock:{u0}:answer", "begun 7 1 "+noPrint+" 3600000000 1 json ", time.Hour)
		}, "nothing was wrong: lockmw: it is not known"},
		"a setting has calls not wait, and nobody has set it": {set, says(`{"wait": "none"}`), "and all policies of that moment say at least 1m0s"},
		"another caps their work":                             {set, says(`{"maxHold": "1s"}`), "its context ended with lockmw: lock was held for longer than MaxHold"},
		"another raises their TTL":                            {alone, says(`{"ttl": "2m"}`), "by the policies of that moment"},
		"another has them tried":                              {set, says(`{"shadow": true}`), "it ran in shadow, and no policy of that moment says so"},
		"another ends that":                                   {trial, says(`{"shadow": false}`), "it has the lock, and no policy of that moment takes it"},
		"the file has them run without the lock": {set, func(w *world) {
			w.desk.write(`{"sim0/m": {"off": true}}`)
		}, "a lease without a lock"},
		"a call in shadow takes the lock": {trial, func(w *world) {
			time.Sleep(4 * time.Second)
			w.plain.Set(context.Background(), "lock:{m0}", "x.y:1", time.Second)
		}, "no call has wanted it that takes its lock"},
		"a call in shadow leaves something": {trial, func(w *world) {
			w.plain.Set(context.Background(), "lock:shadow:{m0}", "x.y:1", time.Hour)
		}, "is left, and nobody calls any more"},
		"an answer of Do is there that nobody has made": {answers, func(w *world) {
			w.plain.Set(context.Background(), "lock:{a1}:answer", "1 9000000000000000 "+noPrint+` 1 json `+"\n{\"Work\":7}", time.Hour)
		}, "nobody has made the answer"},
		"one that was made has been changed": {answers, rewrites(func(_, text string) (string, string) {
			return noPrint, strings.Replace(text, `"Ended":`, `"Ended":1`, 1)
		}), "nobody has made the answer"},
		"an answer goes to another fingerprint": {prints, rewrites(func(mark, text string) (string, string) {
			if mark == noPrint {
				return "", ""
			}
			return noPrint, text
		}), `it has the answer to the fingerprint "other", and its own is ""`},
		"a call is told of another fingerprint, and there was none": {answers, rewrites(func(_, text string) (string, string) {
			return "other", text
		}), "nothing is retained that was made for another one"},
		"an answer is there that nobody has made": {once, func(w *world) {
			w.plain.Set(context.Background(), "lock:{u0}:answer", "1 9000000000000000 "+noPrint+` 1 json `+"\n{\"ID\":7}", time.Hour)
		}, "nobody has made the answer"},
		"a lock that was given back is taken again for the one who had it": {pauses, func(w *world) {
			last := ""
			again(func() {
				ctx, lock := context.Background(), "lock:{m0}"
				if v := w.plain.Get(ctx, lock).Val(); v != "" {
					last = v
				} else if last != "" {
					w.plain.Set(ctx, lock, last, time.Second)
				}
			})
		}, "it gave the lock back 300ms ago"},
		"Redis has a lock for less time than its caller was told": {two, func(w *world) {
			again(func() { w.plain.PExpire(context.Background(), "lock:{m0}", 5*time.Second) })
		}, "longer than Redis has it"},
		"the last in a line is put in front": {three, func(w *world) {
			front := 1e6 // long before everybody has come
			again(func() {
				ctx, queue := context.Background(), "lock:{m0}:queue"
				if all := w.plain.ZRange(ctx, queue, 0, -1).Val(); len(all) > 1 {
					front--
					w.plain.ZAdd(ctx, queue, redis.Z{Score: front, Member: all[len(all)-1]})
				}
			})
		}, "waits still"},
		"the answer of work that has lost its lock is kept": {answers, func(w *world) {
			again(func() {
				ctx := context.Background()
				w.plain.Del(ctx, "lock:{a1}")
				w.judge.mu.Lock()
				var last *making
				if n := len(w.judge.made); n > 0 {
					last = w.judge.made[n-1]
				}
				w.judge.mu.Unlock()
				if last == nil {
					return
				}
				text, err := json.Marshal(last.answer)
				if err != nil {
					panic(err)
				}
				w.plain.Set(ctx, "lock:{a1}:answer", "1 9000000000000000 "+noPrint+" 1 json \n"+string(text), time.Hour)
			})
		}, "whose lock had gone before it was made"},
		"a way is ill, and nobody says so": {two, func(w *world) {
			time.Sleep(20 * time.Millisecond)
			w.parts[0].way.BlackHole(faultproxy.Both)
		}, "nothing was wrong with Redis"},
		"a way is ill, nobody says so, and calls fail open": {opens, func(w *world) {
			time.Sleep(20 * time.Millisecond)
			w.parts[0].way.BlackHole(faultproxy.Both)
		}, "it ran without the lock, and Redis could answer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, tc.plan, tc.bad)
			if !slices.ContainsFunc(r.Wrong, func(wrong string) bool { return strings.Contains(wrong, tc.says) }) {
				t.Errorf("%v, want that it %s", r.Wrong, tc.says)
			}
		})
	}
}
