package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/lockmw"
)

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
