package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/history"
)

// Process is a worker that was started. Its methods may be called concurrently.
type Process struct {
	Config Config

	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the process has ended and all it wrote was read

	wasKilled atomic.Bool // as killed says, for who must not wait for mu

	mu       sync.Mutex
	killed   time.Duration        // since when it is, 0 if it is not
	stopped  time.Duration        // since when it is, 0 if it runs
	open     map[int]history.Hold // by ID: began, not ended
	holds    []history.Hold
	using    map[int]history.Use // by ID: called, not returned
	uses     []history.Use
	calling  map[int]history.Call // by ID: called, not returned
	answers  history.Answers
	writes   []history.Write
	refusals []Refusal
	woke     []Woke
	done     []time.Duration
	failures []string
	told     Listener
}

// A Listener is told what a worker tells, as that comes. Each function may be nil, must return soon, and must not call the Process.
type Listener struct {
	Began  func(history.Hold) // of each hold
	Queued func(Job)          // of each job that is to be given to a worker
	Did    func(id string)    // of each job that was done or discarded, each time
}

// Start starts a worker; a test that ends kills it.
func Start(tb testing.TB, c Config, told Listener) *Process {
	tb.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{Config: c, cmd: exec.Command(self), ended: make(chan struct{}), open: make(map[int]history.Hold), using: make(map[int]history.Use),
		calling: make(map[int]history.Call), told: told}
	p.cmd.Env = append(os.Environ(), configEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go p.read(stdout)
	tb.Cleanup(p.Kill)
	return p
}

// read takes down what the worker tells, until it has ended.
func (p *Process) read(stdout io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Failed: fmt.Sprintf("unreadable: %q", lines.Text())}
		}
		p.note(e)
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.killed == 0 {
		p.failures = append(p.failures, err.Error())
	}
	gone, ran := clock.Now(), clock.Now()
	if p.killed > 0 {
		gone, ran = p.killed, p.killed // however late its end is seen
		p.answers.Unkept = append(p.answers.Unkept, history.Unkept{Worker: p.Config.Name})
	}
	if p.stopped > 0 {
		ran = min(ran, p.stopped)
	}
	for _, h := range p.open { // with the process ended what it held
		if h.How = history.Killed; h.Ended == 0 { // else it was about to release
			if h.Ended = ran; h.Until > 0 {
				h.Ended = min(ran, h.Until) // whatever it would have done then, it would have known that its lease was over
			}
		}
		h.Freed = gone + p.Config.TTL + time.Second // it may have been renewed up to its end, and have told nobody
		p.holds = append(p.holds, h)
	}
	clear(p.open)
}

func (p *Process) note(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Began != nil:
		p.open[e.Began.ID] = *e.Began
		if p.told.Began != nil {
			p.told.Began(*e.Began)
		}
	case e.Renewed != nil:
		p.open[e.Renewed.ID] = *e.Renewed
	case e.Ending != nil:
		p.open[e.Ending.ID] = *e.Ending
	case e.Ended != nil:
		delete(p.open, e.Ended.ID)
		p.holds = append(p.holds, *e.Ended)
	case e.Using != nil:
		p.using[e.Using.ID] = *e.Using
	case e.Used != nil:
		delete(p.using, e.Used.ID)
		p.uses = append(p.uses, *e.Used)
	case e.Calling != nil:
		p.calling[e.Calling.ID] = *e.Calling
	case e.Called != nil:
		delete(p.calling, e.Called.ID)
		p.answers.Calls = append(p.answers.Calls, *e.Called)
	case e.Resolving != nil:
		p.answers.Resolutions = append(p.answers.Resolutions, *e.Resolving)
	case e.Unkept != nil:
		p.answers.Unkept = append(p.answers.Unkept, *e.Unkept)
	case e.Write != nil:
		p.writes = append(p.writes, *e.Write)
	case e.Refused != nil:
		p.refusals = append(p.refusals, *e.Refused)
	case e.Done != 0:
		p.done = append(p.done, e.Done)
	case e.Woke != nil:
		p.woke = append(p.woke, *e.Woke)
	case e.Queued != nil:
		if p.told.Queued != nil {
			p.told.Queued(*e.Queued)
		}
	case e.Did != "":
		if p.told.Did != nil {
			p.told.Did(e.Did)
		}
	default:
		p.failures = append(p.failures, e.Failed)
	}
}

// Stop sends SIGSTOP, and returns when the process has stopped.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		stopped, err := isStopped(p.PID())
		if err != nil {
			return err
		}
		if stopped {
			break
		}
		time.Sleep(time.Millisecond)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = clock.Now()
	return nil
}

// Cont sends SIGCONT.
func (p *Process) Cont() error {
	p.mu.Lock()
	p.stopped = 0
	p.mu.Unlock()
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// isStopped asks ps, which is the same on all systems that have SIGSTOP.
func isStopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return bytes.HasPrefix(bytes.TrimSpace(state), []byte("T")), err
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	p.mu.Lock()
	_ = p.cmd.Process.Kill() // it may have ended by itself
	if p.killed == 0 {
		p.killed = clock.Now()
		p.wasKilled.Store(true)
	}
	p.mu.Unlock()
	<-p.ended
}

// Killed reports whether the process was ended by Kill. A Listener may wait for whoever calls it.
func (p *Process) Killed() bool { return p.wasKilled.Load() }

// Do sends a line: "hog 2s" has the worker burn all processors, "cancel 2s" has it
// cancel each acquire early, and "finish" has it take no turns any more, and do the jobs that it is given.
func (p *Process) Do(line string) error {
	_, err := fmt.Fprintln(p.stdin, line)
	return err
}

// Give gives the worker a job. The error says that it takes none any more; without one it may do the job or not, as it may end before.
func (p *Process) Give(job Job) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	return p.Do("job " + string(text))
}

// End has the worker finish what it holds and close its engine; it waits until the
// process has ended, and kills it if that takes too long.
func (p *Process) End() error {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
		return nil
	case <-time.After(15 * time.Second):
		p.Kill()
		return fmt.Errorf("worker %s did not end when it was told to", p.Config.Name)
	}
}

// Holds reports whether the worker holds a lock that it is not about to release, and whose lease is not over, as far as it has told.
func (p *Process) Holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := clock.Now()
	for _, h := range p.open {
		if h.Ended == 0 && (h.Until == 0 || h.Until > now) {
			return true
		}
	}
	return false
}

// Ended is closed when the process has ended by itself or otherwise.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// HeldAt reports whether the worker held anything at that moment, as far as it has told.
func (p *Process) HeldAt(at time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.open {
		if h.Began < at && (h.Ended == 0 || h.Ended >= at) && (h.Until == 0 || h.Until >= at) { // whose lease was over had lost it, however late it says so
			return true
		}
	}
	for _, h := range slices.Backward(p.holds) { // in the order in which they ended, but for a moment
		if h.Began < at && h.Ended >= at {
			return true
		}
		if h.Ended < at-time.Minute {
			break
		}
	}
	return false
}

// Saw is what a worker told so far.
type Saw struct {
	Holds    []history.Hold // that have ended
	Open     []history.Hold // that have not
	Uses     []history.Use  // of tickets; of one that has not returned it is not known what came of it
	Answers  history.Answers
	Writes   []history.Write
	Refusals []Refusal
	Woke     []Woke
	Done     []time.Duration // when the work of each lost hold was told so
	Failures []string        // of the worker itself
}

// Saw returns what the worker told so far.
func (p *Process) Saw() Saw {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Saw{
		Holds: slices.Clone(p.holds), Writes: slices.Clone(p.writes), Refusals: slices.Clone(p.refusals),
		Woke: slices.Clone(p.woke), Done: slices.Clone(p.done), Failures: slices.Clone(p.failures),
		Uses: slices.Concat(p.uses, slices.Collect(maps.Values(p.using))),
	}
	s.Answers.Add(p.answers)
	s.Answers.Calls = slices.AppendSeq(s.Answers.Calls, maps.Values(p.calling))
	for _, h := range p.open {
		s.Open = append(s.Open, h)
	}
	return s
}
