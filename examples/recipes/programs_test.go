package recipes

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

// A program is a recipe that many processes run.
type program struct {
	name string
	args []string
	line *regexp.Regexp // it says that something was done, and what
	kill bool           // whoever has written the first line is killed then
	n    int            // of such lines to wait for
}

var programs = []program{
	{"cron", nil, regexp.MustCompile(`the report is written here of=(.*)`), true, 4},
	{"ticker", nil, regexp.MustCompile(`the job is done slot=(.*)`), true, 4},
	{"gocron", nil, regexp.MustCompile(`^(\S+ \S+) INFO the report is written here`), true, 4},
	{"gocron", []string{"-leader"}, regexp.MustCompile(`^(\S+ \S+) INFO the report is written here`), true, 4},
	{"leader", nil, regexp.MustCompile(`this process leads fence=(.*)`), true, 2},
	{"worker", nil, regexp.MustCompile(`done message=(.*)`), false, 10},
	{"workflow", nil, regexp.MustCompile(`the order is (.*)`), false, 9},
}

// A said is a line of a process.
type said struct {
	by   int
	what string
}

// run runs a program in three processes, as the document says (those that bring their own queue in one), and kills one of them.
// Nothing is done twice.
func (p program) run(t *testing.T, m *module) {
	t.Helper()
	env := []string{"REDIS_ADDR=" + redistest.Real(t).Addr(), "ADDR=127.0.0.1:0"}
	lines := make(chan said, 1000)
	var processes []*process
	for by := range 3 {
		if (p.name == "worker" || p.name == "workflow") && by > 0 {
			break // its queue is its own
		}
		processes = append(processes, m.start(t, p.name, p.args, env, func(line string) {
			if found := p.line.FindStringSubmatch(line); found != nil {
				lines <- said{by, found[1]}
			}
		}))
	}
	late := time.After(time.Minute)
	var seen []string
	for killed := -1; len(seen) < p.n; {
		select {
		case line := <-lines:
			if slices.Contains(seen, line.what) {
				t.Errorf("%s is done twice", line.what)
			}
			seen = append(seen, line.what)
			if p.kill && killed < 0 {
				killed = line.by
				processes[killed].end(t, syscall.SIGKILL)
			}
		case <-late:
			t.Fatalf("only %q in a minute", seen)
		}
	}
	for by, proc := range processes {
		proc.end(t, syscall.SIGTERM)
		if err := proc.err; err != nil && proc.signal != syscall.SIGKILL {
			t.Errorf("process %d ends with %v", by, err)
		}
	}
}

// A process of a program.
type process struct {
	cmd    *exec.Cmd
	gone   chan struct{} // it has ended, with err
	err    error
	signal syscall.Signal // the first that it was sent
}

// start starts the recipe of that name. Each of its lines is told, the last one before it is gone.
func (m *module) start(t *testing.T, name string, args, env []string, told func(line string)) *process {
	t.Helper()
	p := &process{cmd: &exec.Cmd{Path: m.program, Args: append([]string{name}, args...)}, gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	read, write := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = write, write
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		_ = write.Close()
	}()
	go func() {
		defer close(p.gone)
		for text := bufio.NewScanner(read); text.Scan(); {
			if strings.Contains(text.Text(), "DATA RACE") {
				t.Errorf("%s has a data race", name)
			}
			told(text.Text())
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.gone
	})
	return p
}

// end sends a signal, and waits for the end.
func (p *process) end(t *testing.T, s syscall.Signal) {
	t.Helper()
	if p.signal != 0 {
		return
	}
	p.signal = s
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("%v; it has ended by itself", err)
	}
	<-p.gone
}
