package matrix

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// soakFor returns how long the soak lasts, and how long a lane is left alone
// between two faults.
func soakFor(t testing.TB) (whole, least, most time.Duration) {
	t.Helper()
	if text := os.Getenv("PROOF_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d, 5 * time.Second, 15 * time.Second
	}
	if testing.Short() {
		return 6 * time.Second, 100 * time.Millisecond, time.Second
	}
	return time.Minute, time.Second, 3 * time.Second
}

// memory is one reading.
type memory struct {
	at     time.Duration
	redis  float64 // bytes
	worker float64 // bytes, of the oldest worker
}

// measure reads how much memory a lane's Redis and its oldest worker use.
func (l *Lane) measure() memory {
	m := memory{at: clock.Now()}
	text, err := l.admin.Info(context.Background(), "memory").Result()
	l.check(err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "used_memory:"); ok {
			m.redis, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
			l.check(err)
		}
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", l.oldest().PID()))
	l.check(err)
	if fields := strings.Fields(string(statm)); len(fields) > 1 {
		pages, err := strconv.ParseFloat(fields[1], 64)
		l.check(err)
		m.worker = pages * float64(os.Getpagesize())
	}
	return m
}

// slope returns by how much a reading grows in a minute, by least squares over
// the second half: the first one fills buffers and pools.
func slope(readings []memory, of func(memory) float64) float64 {
	readings = readings[len(readings)/2:]
	var n, sx, sy, sxx, sxy float64
	for _, m := range readings {
		x, y := m.at.Minutes(), of(m)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d != 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

// Check 24 of REPORT.md.
func TestSoak(test *testing.T) {
	t := reasonsLast(test)
	s := record.Seed(t)
	whole, least, most := soakFor(t)
	until := clock.Now() + whole
	needs := []string{anyServer, anyServer, fromFile, forgetful, tenured, tenuredForgetful}
	var all Outcome
	var mu sync.Mutex
	var readings []memory // of the first lane
	var running sync.WaitGroup
	for i, need := range needs {
		lane := NewLane(t, fmt.Sprintf("soak%d", i+1), s+uint64(i), ttl(), need)
		kinds := slices.Concat(keptWord(), forget())
		kinds = slices.DeleteFunc(kinds, func(k Kind) bool {
			return k.Needs != need && (k.Needs != anyServer || need == forgetful || need == tenuredForgetful)
		})
		running.Go(func() {
			for clock.Now() < until {
				lane.last(least + time.Duration(lane.rnd.Int64N(int64(most-least))))
				lane.Inject(kinds[lane.rnd.IntN(len(kinds))])
				if i == 0 {
					readings = append(readings, lane.measure())
				}
			}
			o := lane.End()
			mu.Lock()
			defer mu.Unlock()
			all.Add(lane.Name, o)
		})
	}
	running.Wait()
	lines := all.Lines()
	report(t, &all, lines)

	overlaps := 0
	var recovery time.Duration
	for _, line := range lines {
		recovery = max(recovery, line.Recovery)
		if !line.Forgets {
			overlaps += line.Overlaps
		}
	}
	limit := ttl() + time.Second
	if testing.Short() {
		limit += time.Minute // on a machine that is busy with other tests
	}
	stale := len(history.StaleWrites(all.Holds, all.Writes))
	kib := func(of func(memory) float64) float64 { return slope(readings, of) / 1024 }
	grown := "too short a run for a slope"
	if whole >= 10*time.Minute {
		grown = fmt.Sprintf("Redis %+.1f KiB a minute, a worker %+.1f KiB a minute",
			kib(func(m memory) float64 { return m.redis }), kib(func(m memory) float64 { return m.worker }))
	}
	record.Add(t, record.Row{
		Check: 24, Name: "soak",
		Goal: fmt.Sprintf("%v: 0 overlaps while Redis keeps its word, 0 stale writes, alive again within %v, memory slope ~0", whole, limit),
		Figure: fmt.Sprintf("%d injections, %d holds: %d overlaps, %d stale writes, alive again within %v, %s",
			len(all.Injections), len(all.Holds), overlaps, stale, recovery.Round(time.Millisecond), grown),
		Met:  overlaps == 0 && stale == 0 && recovery <= limit,
		Note: fmt.Sprintf("seed %d", s),
	})
}
