// Package jobs proves what Locker.Once and Locker.Leader promise, with processes that are
// killed, stopped and cut off.
//
// Start reading at this file, then candidate_test.go (the processes).
package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/record"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(roleEnv); text != "" {
		var r role
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			panic(err)
		}
		play(r, os.Stdin, os.Stdout)
		return
	}
	redistest.Main(m)
}

const (
	ttl        = 2 * time.Second
	candidates = 3
)

// sights are what all candidates saw.
type sights struct {
	mu  sync.Mutex
	all []sight
}

func (s *sights) add(one sight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

func (s *sights) copy() []sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// failures returns what candidates said that must not be.
func (s *sights) failures() (texts []string) {
	for _, one := range s.copy() {
		if one.Failed != "" {
			texts = append(texts, one.by+": "+one.Failed)
		}
	}
	return texts
}

// term returns the latest term that has begun.
func (s *sights) term() (latest sight) {
	for _, one := range s.copy() {
		if one.Began > 0 && one.Fence > latest.Fence {
			latest = one
		}
	}
	return latest
}

// overlaps returns the answers true of leaders after a later one's.
func overlaps(all []sight) (found []string) {
	all = slices.DeleteFunc(all, func(s sight) bool { return s.Leads == 0 })
	slices.SortFunc(all, func(a, b sight) int { return int(a.Leads - b.Leads) })
	var highest sight
	for _, s := range all {
		if s.Fence < highest.Fence {
			found = append(found, fmt.Sprintf("%s (fence %d) leads %v after %s (fence %d) did", s.by, s.Fence, time.Duration(s.Leads-highest.Leads), highest.by, highest.Fence))
		}
		if s.Fence >= highest.Fence {
			highest = s
		}
	}
	return found
}

func TestOverlapsAreFound(t *testing.T) {
	fine := []sight{{Leads: 1, Fence: 1}, {Leads: 2, Fence: 1}, {Leads: 3, Fence: 2}}
	if found := overlaps(fine); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	if found := overlaps(append(fine, sight{Leads: 4, Fence: 1})); len(found) != 1 {
		t.Errorf("found %q, want one", found)
	}
}

// A leader that is killed, stopped or cut off is followed by another one when its TTL is
// over, and says itself that it leads no more before that.
func TestOneLeadsWhateverHappensToIt(t *testing.T) {
	times := record.Pick(2, 30)
	for fault, strike := range map[string]func(t *testing.T, c *candidate, p *faultproxy.Proxy) (heal func()){
		"killed": func(_ *testing.T, c *candidate, _ *faultproxy.Proxy) func() {
			c.kill()
			return func() {}
		},
		"stopped": func(t *testing.T, c *candidate, _ *faultproxy.Proxy) func() {
			c.signal(t, syscall.SIGSTOP)
			return func() { c.signal(t, syscall.SIGCONT) }
		},
		"cut off": func(_ *testing.T, _ *candidate, p *faultproxy.Proxy) func() {
			p.BlackHole(faultproxy.Both)
			return p.Heal
		},
	} {
		t.Run(fault, func(t *testing.T) {
			if testing.Short() {
				t.Parallel()
			}
			s, key := redistest.Shared(t), redistest.Prefix(t)
			var seen sights
			proxies := make(map[string]*faultproxy.Proxy)
			running := make(map[string]*candidate)
			begin := func(name string) {
				running[name] = start(t, role{Name: name, Addr: proxies[name].Addr(), Key: key, TTL: ttl}, seen.add)
			}
			for i := range candidates {
				name := fmt.Sprint("candidate", i)
				proxies[name] = faultproxy.Start(t, s.Addr())
				begin(name)
			}
			var slowest time.Duration
			for i := range times {
				leader := await(t, "somebody leads", func() (sight, bool) { now := seen.term(); return now, now.Fence > 0 })
				await(t, "the leader says so", func() (sight, bool) {
					return leader, slices.ContainsFunc(seen.copy(), func(s sight) bool { return s.Leads > 0 && s.Fence == leader.Fence })
				})
				time.Sleep(time.Duration(i%7) * 100 * time.Millisecond) // at another moment between two renewals
				struck := time.Now()
				heal := strike(t, running[leader.by], proxies[leader.by])
				next := await(t, "another one leads", func() (sight, bool) { now := seen.term(); return now, now.Fence > leader.Fence })
				slowest = max(slowest, time.Duration(next.Began-struck.UnixNano()))
				heal()
				if fault == "killed" {
					begin(leader.by)
				}
				time.Sleep(200 * time.Millisecond) // what one that was stopped says now
			}
			for _, c := range running {
				c.kill()
			}
			two, failures := overlaps(seen.copy()), seen.failures()
			limit := ttl + 500*time.Millisecond
			goal := limit
			if testing.Short() {
				limit += 2 * time.Second // on a machine that is busy with other tests
			}
			record.Add(t, record.Row{
				Check: 30, Name: "the leader of three processes is " + fault,
				Goal:   fmt.Sprintf("%d of %d: another one leads within %v; never two", times, times, goal),
				Figure: fmt.Sprintf("%d faults, the next leader within %v; %d answers, two led %d times", times, slowest.Round(time.Millisecond), len(seen.copy()), len(two)),
				Met:    slowest <= limit && len(two) == 0 && len(failures) == 0,
				Note:   strings.Join(append(failures, two...), "; "),
			})
		})
	}
}

// await returns what is seen as soon as it is.
func await(t *testing.T, what string, state func() (sight, bool)) sight {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s, ok := state(); ok {
			return s
		}
	}
	t.Fatalf("not within a minute: %s", what)
	return sight{}
}

// Three processes have a job every second. One is killed in between, and one is stopped and goes on.
func TestEachSecondHasOneRun(t *testing.T) {
	if testing.Short() {
		t.Parallel()
	}
	const every = time.Second
	seconds := record.Pick(9, 60)
	s, key := redistest.Shared(t), redistest.Prefix(t)
	var seen sights
	var all []*candidate
	for i := range candidates {
		all = append(all, start(t, role{Name: fmt.Sprint("process", i), Addr: s.Addr(), Key: key, TTL: ttl, Every: every}, seen.add))
	}
	await(t, "the first run", func() (sight, bool) {
		now := seen.copy()
		return sight{}, slices.ContainsFunc(now, func(s sight) bool { return s.Slot > 0 })
	})
	begin := time.Now().Truncate(every).Add(every)
	at := func(part float64) time.Time {
		return begin.Add(time.Duration(part * float64(seconds) * float64(every)))
	}
	faults := []struct {
		at   time.Time
		name string
		do   func()
	}{
		{at(0.25).Add(300 * time.Millisecond), "process1 is stopped", func() { all[1].signal(t, syscall.SIGSTOP) }},
		{at(0.5).Add(-2 * time.Millisecond), "process0 is killed", all[0].kill},
		{at(0.75).Add(700 * time.Millisecond), "process1 goes on", func() { all[1].signal(t, syscall.SIGCONT) }},
	}
	var doubtful []time.Time
	for _, f := range faults {
		time.Sleep(time.Until(f.at))
		f.do()
		doubtful = append(doubtful, time.Now())
		t.Logf("%s: %s", time.Now().Format("15:04:05.000"), f.name)
	}
	time.Sleep(time.Until(at(1).Add(500 * time.Millisecond)))
	for _, c := range all {
		c.kill()
	}
	runs, asked, unheard := make(map[int64][]string), make(map[int64]bool), make(map[int64]bool)
	for _, run := range seen.copy() {
		asked[run.Asked], unheard[run.Unsure] = true, true
		if run.Slot > 0 {
			runs[run.Slot] = append(runs[run.Slot], run.by)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(runs)) {
		t.Logf("%s: %s", time.Unix(0, slot).Format("15:04:05"), strings.Join(runs[slot], ", "))
	}
	once, none, twice := 0, 0, 0
	for i := range seconds {
		slot := begin.Add(time.Duration(i) * every)
		unsure := slices.ContainsFunc(doubtful, func(d time.Time) bool { return d.Sub(slot).Abs() < every })
		if testing.Short() { // a machine that is busy with other tests: somebody did not hear of Redis, or nobody came in time
			unsure = unsure || unheard[slot.UnixNano()] || !asked[slot.UnixNano()]
		}
		switch n := len(runs[slot.UnixNano()]); {
		case n == 1:
			once++
		case n > 1:
			twice++
		case unsure:
			none++
		default:
			t.Errorf("%s: nobody ran the job", slot.Format("15:04:05"))
		}
	}
	failures := seen.failures()
	record.Add(t, record.Row{
		Check: 31, Name: "a job every second in three processes, of which one is killed and one stopped",
		Goal:   fmt.Sprintf("%d seconds: one run in each, or none where nobody could know; never two", seconds),
		Figure: fmt.Sprintf("%d seconds with one run, %d with none beside a fault, %d with two", once, none, twice),
		Met:    once+none == seconds && once >= seconds/3 && twice == 0 && len(failures) == 0,
		Note:   strings.Join(failures, "; "),
	})
}
