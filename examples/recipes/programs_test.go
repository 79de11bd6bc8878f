package recipes

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
}

// Each program runs in three processes, as the document says (worker in one), one of which is killed.
func TestProgramsDoEverythingOnce(t *testing.T) {
	all := inDocument(t)
	which := programs
	if testing.Short() {
		which = programs[1:2] // without a library: it is compiled fastest
	}
	for _, p := range which {
		t.Run(strings.Join(append([]string{p.name}, p.args...), " "), func(t *testing.T) {
			t.Parallel()
			dir := newModule(t)
			all[p.name].write(t, p.name, dir)
			if err := goCommand(t, dir, "build", "-o", "program", "."); err != nil {
				t.Fatal(err)
			}
			p.run(t, filepath.Join(dir, "program"), redistest.Real(t).Addr())
		})
	}
}

// A said is a line of a process.
type said struct {
	by   int
	what string
}

func (p program) run(t *testing.T, path, addr string) {
	t.Helper()
	lines := make(chan said, 1000)
	var processes []*process
	for by := range 3 {
		if p.name == "worker" && by > 0 {
			break // its queue is its own
		}
		processes = append(processes, start(t, path, p.args, addr, func(line string) {
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

func start(t *testing.T, path string, args []string, addr string, told func(line string)) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "REDIS_ADDR="+addr, "ADDR=127.0.0.1:0")
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
