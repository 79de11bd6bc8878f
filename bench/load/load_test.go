package load

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/waits"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// windows is how often a test measures that wants turns: on a busy machine a window may be over
// before there were any.
const windows = 3

// runUntil is runFor, again while there were fewer turns, windows times at most.
func runUntil(t *testing.T, turns int64, s Spec) (r Result) {
	t.Helper()
	for range windows {
		if r = runFor(t, s); r.Turns >= turns {
			break
		}
	}
	return r
}

// runFor runs s for a short while.
func runFor(t *testing.T, s Spec) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.Addr = redistest.Real(t).Addr()
	job, err := Prepare(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := job.Close(); err != nil {
			t.Error(err)
		}
	}()
	begin := time.Now().Add(50 * time.Millisecond)
	r, err := job.Run(ctx, Window{Begin: begin, End: begin.Add(300 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors > 0 {
		t.Errorf("%d errors, the first: %s", r.Errors, r.Error)
	}
	return r
}

func TestTurnsOnOneKeyAreMeasured(t *testing.T) {
	r := runUntil(t, 10, Spec{Library: library.Ours, Goroutines: 3, Lockers: 2, Keys: One, Hold: time.Millisecond})
	if r.Turns == 0 || r.Most < r.Fewest || r.Most > r.Turns {
		t.Errorf("%d turns, most %d, fewest %d", r.Turns, r.Most, r.Fewest)
	}
	if got := int64(r.Waits.Count()); got < r.Turns || got > r.Turns+3 { // those cut short count too
		t.Errorf("%d waits of %d turns", got, r.Turns)
	}
	if r.Gaps.Count() == 0 {
		t.Error("nobody was handed the lock")
	}
	if r.Held < time.Duration(r.Turns)*time.Millisecond {
		t.Errorf("%d turns of 1 ms were %v long in all", r.Turns, r.Held)
	}
	if r.Commands == 0 || r.Allocs == 0 || r.CPU == 0 || r.Connections == 0 {
		t.Errorf("%d commands, %d allocations, %v CPU, %d connections", r.Commands, r.Allocs, r.CPU, r.Connections)
	}
}

// free is a turner that has nothing to do.
type free struct{}

func (free) turn(_ context.Context, _ string, inside func()) error {
	inside()
	return nil
}

func (free) Close() error { return nil }

func TestTheMeasurementAllocatesNothingPerTurn(t *testing.T) {
	job := &turns{spec: Spec{Goroutines: 1, Keys: Own}, wire: new(library.Wire), turners: []turner{free{}}}
	var r Result
	var err error
	for range windows {
		begin := time.Now().Add(10 * time.Millisecond)
		r, err = job.Run(t.Context(), Window{Begin: begin, End: begin.Add(100 * time.Millisecond)})
		if err != nil || r.Turns >= 1000 {
			break
		}
	}
	if err != nil || r.Turns < 1000 || r.Allocs > r.Turns/10 {
		t.Errorf("%d allocations in %d turns, %v", r.Allocs, r.Turns, err)
	}
}

func TestHeldLeasesAreMeasured(t *testing.T) {
	r := runFor(t, Spec{Leases: 40, TTL: 5 * time.Second})
	if r.Turns != 40 || r.Heap <= 0 || r.Goroutines < 0 {
		t.Errorf("%d leases, %d bytes, %d goroutines", r.Turns, r.Heap, r.Goroutines)
	}
}

func TestRecordedTurnsAreSentAgain(t *testing.T) {
	for library, commands := range map[string]int64{library.Ours: 5, library.OursByScripts: 2, library.Redislock: 2, library.Raw: 2} {
		r := runUntil(t, 1, Spec{Library: library, Replay: 10})
		if r.Turns == 0 || r.Commands != commands*r.Turns || r.CPU == 0 {
			t.Errorf("%s: %d turns of %d commands, %v CPU", library, r.Turns, r.Commands, r.CPU)
		}
	}
}

func TestAReplayOfOtherRepliesFails(t *testing.T) {
	server := redistest.Real(t)
	job, err := Prepare(t.Context(), Spec{Library: library.Raw, Addr: server.Addr(), Replay: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := job.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := server.Client(t).Set(t.Context(), "7", "of somebody else", 0).Err(); err != nil { // the seventh turn's key
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := job.Run(t.Context(), Window{Begin: begin, End: begin.Add(100 * time.Millisecond)}); err == nil || !strings.Contains(err.Error(), "when the turn was recorded") {
		t.Errorf("error %v", err)
	}
}

func TestOnlyNumbersInStringsMayDiffer(t *testing.T) {
	const want = "+OK\r\n:0\r\n*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"
	for got, same := range map[string]bool{
		want: true,
		"+OK\r\n:0\r\n*2\r\n$10\r\n1700000001\r\n$2\r\n17\r\n":     true,
		"+OK\r\n:1\r\n*2\r\n$10\r\n1700000001\r\n$2\r\n17\r\n":     false,
		"$-1\r\n:0\r\n*2\r\n$10\r\n1700000001\r\n$2\r\n17\r\n":     false,
		"+OK\r\n:0\r\n*2\r\n$-1\r\n":                               false,
		"-ERR no\r\n:0\r\n*2\r\n$10\r\n1700000001\r\n$2\r\n17\r\n": false,
		"+OK\r\n:0\r\n*2\r\n$-1\r\n1700000001\r\n$2\r\n17\r\n":     false,
		"+OK\r\n:0\r\n": false,
	} {
		if err := expect(bufio.NewReader(strings.NewReader(got)), []byte(want)); (err == nil) != same {
			t.Errorf("%q: %v", got, err)
		}
	}
}

func TestWhoStarvesShows(t *testing.T) {
	s := Spec{Library: library.Raw, Goroutines: 2, Keys: One, Hold: 500 * time.Millisecond} // longer than the window
	r := runFor(t, s)
	if r.Waits.Max < 100*time.Millisecond {
		t.Errorf("the longest wait is %v, of one who waited all the time", r.Waits.Max)
	}
}

func TestKeys(t *testing.T) {
	draw := func(s Spec, i, times int) map[string]bool {
		tr := turns{spec: s}
		next, seen := tr.keys(i), make(map[string]bool)
		for range times {
			seen[next()] = true
		}
		return seen
	}
	own := make(map[string]bool)
	for part := range 3 {
		for i := range 100 {
			for key := range draw(Spec{Keys: Own, Part: part}, i, 5) {
				own[key] = true
			}
		}
	}
	if len(own) != 300 {
		t.Errorf("300 goroutines have %d own keys", len(own))
	}
	if one := draw(Spec{Keys: One}, 1, 10); len(one) != 1 {
		t.Errorf("one key is %d", len(one))
	}
	if drawn := draw(Spec{Keys: Drawn, KeyCount: 10}, 0, 1000); len(drawn) != 10 {
		t.Errorf("of 10 keys %d were drawn", len(drawn))
	}
	if zipf := draw(Spec{Keys: Zipf, KeyCount: 10_000}, 0, 1000); len(zipf) < 10 || len(zipf) > 900 {
		t.Errorf("1000 draws gave %d keys: they are not zipf-distributed", len(zipf))
	}
}

func TestMergeAddsProcesses(t *testing.T) {
	var c waits.Counts
	c.Add(time.Second)
	a := Result{Turns: 5, Most: 3, Fewest: 2, Waits: c.Summary(), Allocs: 1, CPU: 1, Commands: 1, Connections: 9}
	b := Result{Turns: 7, Most: 6, Fewest: 1, Waits: c.Summary(), Allocs: 2, CPU: 2, Commands: 2, Connections: 8, Errors: 1, Error: "lost"}
	a.Merge(b)
	if a.Turns != 12 || a.Most != 6 || a.Fewest != 1 || a.Waits.Count() != 2 || a.Allocs != 3 || a.CPU != 3 || a.Commands != 3 || a.Connections != 9 || a.Errors != 1 || a.Error != "lost" {
		t.Errorf("%+v", a)
	}
}

func TestWhatDoesNotExistCannotBePrepared(t *testing.T) {
	for _, s := range []Spec{{Library: "etcd"}, {Door: "fasthttp"}, {Door: "bare fasthttp"}} {
		s.Addr = "127.0.0.1:1"
		if _, err := Prepare(context.Background(), s); err == nil || !strings.Contains(err.Error(), "there is no") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
