package combos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Result is what a round saw. Its child process writes one before the round, with
// Begun alone, and one after it.
type Result struct {
	Begun       bool                     `json:"begun,omitempty"`
	Void        bool                     `json:"void,omitempty"` // the Sentinels replaced a master without a fault that has them do so: nothing is judged
	Combination Combination              `json:"combination"`
	Injections  int                      `json:"injections"`
	Calls       map[string]int           `json:"calls"` // how many, by their outcome
	Violations  []Violation              `json:"violations,omitempty"`
	Known       []string                 `json:"known,omitempty"` // violations that are known, by what they are known as
	Worst       map[string]time.Duration `json:"worst,omitempty"`
	Late        time.Duration            `json:"late"` // how late the machine woke a goroutine
	Took        time.Duration            `json:"took"`
}

// Environment variables.
const (
	segmentEnv = "PROOF_COMBOS_SEGMENT" // what a child process does
	RoundEnv   = "PROOF_ROUND"          // the token of one round that is to be run alone
)

// A segment is a number of rounds that one child process runs on one site. Rounds
// run in child processes, because an observer's panic in a goroutine of the Locker
// ends its process.
type segment struct {
	Group  string        `json:"group"`
	Server string        `json:"server"`
	Seed   uint64        `json:"seed"`
	Rounds int           `json:"rounds"`
	For    time.Duration `json:"for"`
}

// ownSegment returns the segment that this process is to run; ok is false in the parent.
func ownSegment() (s segment, ok bool, err error) {
	text := os.Getenv(segmentEnv)
	if text == "" {
		return s, false, nil
	}
	return s, true, json.Unmarshal([]byte(text), &s)
}

// run runs the segment's rounds and writes their results.
func (s segment) run(tb testing.TB, out *os.File) {
	tb.Helper()
	site := openSite(tb, s.Group, s.Server)
	rnd := rand.New(rand.NewPCG(s.Seed, 4))
	began := time.Now()
	write := json.NewEncoder(out)
	told, err := interest()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(told.end)
	for range s.Rounds {
		c := Draw(s.Group, s.Server, rnd.Uint64()>>1)
		for testing.Short() && c.heavy() {
			c = Draw(s.Group, s.Server, rnd.Uint64()>>1)
		}
		select {
		case <-told.lost:
			return
		default:
		}
		if time.Since(began) > s.For {
			return
		}
		if err := errors.Join(write.Encode(Result{Begun: true, Combination: c}), write.Encode(runRound(site, c, Open))); err != nil {
			tb.Error(err) // the parent has gone
			return
		}
	}
}

// A parent's interest in what this process does lasts until it closes its end of
// standard input, or dies.
type parent struct {
	lost chan struct{} // closed at the end of its interest
	in   *os.File
}

func interest() (*parent, error) {
	fd := int(os.Stdin.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil { // else Close waits for Read
		return nil, err
	}
	p := &parent{lost: make(chan struct{}), in: os.NewFile(uintptr(fd), "standard input")}
	go func() {
		defer close(p.lost)
		_, _ = io.Copy(io.Discard, p.in)
	}()
	return p, nil
}

func (p *parent) end() {
	_ = p.in.Close()
	<-p.lost
}

// runRound runs one round.
func runRound(s *site, c Combination, open func(redis.UniversalClient, Settings) (Locker, error)) Result {
	r := newRound(s, c, open)
	r.reign = s.reign()
	r.run()
	if s.reign() != r.reign {
		// On a busy machine the Sentinels may find their master too slow. What
		// follows from that belongs to the one fault that has it happen.
		r.restore()
		return Result{Combination: c, Void: true}
	}
	result := Result{
		Combination: c, Injections: len(r.windows), Calls: make(map[string]int),
		Worst: r.worst, Late: r.meter.Longest(r.began, time.Now()), Took: r.now(),
	}
	for _, v := range r.violations {
		if what := known(c, v.Rule); what != "" {
			result.Known = append(result.Known, what)
		} else {
			result.Violations = append(result.Violations, v)
		}
	}
	for _, k := range r.calls {
		result.Calls[k.outcome]++
	}
	return result
}

// carryOut runs the segment in a child process, whose servers have their files in
// a folder, and hands its results to tell. A child that dies is a violation of the
// round that it had begun.
func (s segment) carryOut(ctx context.Context, folder string, tell func(Result)) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	results, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer results.Close()
	ctx, cancel := context.WithTimeout(ctx, s.For+2*time.Minute)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCombinations$", "-test.timeout=0", fmt.Sprintf("-test.short=%v", testing.Short()))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	cmd.Cancel = stdin.Close // it ends after its round, and takes its servers along
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), segmentEnv+"="+string(text), "TMPDIR="+folder)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return errors.Join(err, theirs.Close())
	}
	_ = theirs.Close() // the child has its own
	begun, err := readResults(results, tell)
	if err != nil {
		return errors.Join(err, cmd.Wait())
	}
	err = cmd.Wait()
	if begun != nil && ctx.Err() == nil {
		begun.Violations = []Violation{{Rule: rulePanic, Text: "the process died: " + death(said.String()), Times: 1}}
		begun.Injections = 1
		tell(*begun)
		return nil
	}
	if err != nil && ctx.Err() == nil {
		text := said.String()
		return fmt.Errorf("%w: %s", err, text[max(0, len(text)-4000):])
	}
	return nil
}

// readResults hands results to tell until the child that writes them ends. It returns
// the round that the child had begun and not ended, if there is one.
func readResults(results io.Reader, tell func(Result)) (begun *Result, err error) {
	lines := bufio.NewScanner(results)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		if r.Begun {
			begun = &r
			continue
		}
		begun = nil
		tell(r)
	}
	return begun, nil
}

// death returns what a process that died said of it.
func death(said string) string {
	if i := strings.Index(said, "panic: "); i >= 0 {
		said = said[i:]
	} else if i := strings.Index(said, "fatal error: "); i >= 0 {
		said = said[i:]
	}
	return fmt.Sprintf("%.1500s", said)
}
