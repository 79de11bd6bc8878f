// Package child runs loads in processes of their own, which are this same
// program started again. All of a group are measured within the same window.
//
// A child reads a load.Spec from its standard input, prepares the load and
// writes "ready"; it reads the load.Window, and writes the load.Result.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/lockmw/kit/bench/load"
)

// env marks a process as a child.
const env = "LOCKMW_BENCH_CHILD"

const ready = "ready\n"

// IfChild runs the load and ends the process, if it was started by Start. Call
// it first in main, and in the TestMain of tests that start children.
func IfChild() {
	if os.Getenv(env) == "" {
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench: child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	var spec load.Spec
	var window load.Window
	parent, result := json.NewDecoder(in), json.NewEncoder(out)
	if err := parent.Decode(&spec); err != nil {
		return err
	}
	job, err := load.Prepare(ctx, spec)
	if err != nil {
		return err
	}
	r, err := func() (r load.Result, err error) {
		if _, err = io.WriteString(out, ready); err != nil {
			return r, err
		}
		if err = parent.Decode(&window); err != nil { // the parent has ended, or a sibling failed
			return r, err
		}
		return job.Run(ctx, window)
	}()
	if err == nil {
		err = result.Encode(r)
	}
	return errors.Join(err, job.Close())
}

// A Group is processes that wait for their window.
type Group struct{ list []*process }

type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr tail
}

// Start starts one process for each spec and returns when all are ready. They
// are killed when ctx ends. The caller calls Run or Close.
func Start(ctx context.Context, specs []load.Spec) (*Group, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &Group{}
	for _, spec := range specs {
		if err := g.start(exec.CommandContext(ctx, program), spec); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	for _, p := range g.list {
		if line, err := p.stdout.ReadString('\n'); line != ready {
			return nil, errors.Join(fmt.Errorf("child is not ready: %q: %w", line, errors.Join(err, errNotReady)), g.Close())
		}
	}
	return g, nil
}

var errNotReady = errors.New("it did not say so")

func (g *Group) start(cmd *exec.Cmd, spec load.Spec) error {
	p := &process{cmd: cmd}
	// With the race detector a process would sleep for a second at its end.
	cmd.Env = append(os.Environ(), env+"=1", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	cmd.Stderr = &p.stderr
	cmd.WaitDelay = 10 * time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.stdin, p.stdout = stdin, bufio.NewReader(stdout)
	g.list = append(g.list, p)
	return send(stdin, spec)
}

func send(w io.Writer, message any) error { return json.NewEncoder(w).Encode(message) }

// Run has all processes make their load, calls during, and returns what they
// saw together. It ends the processes and waits for them.
func (g *Group) Run(w load.Window, during func() error) (load.Result, error) {
	var errs []error
	for _, p := range g.list {
		errs = append(errs, send(p.stdin, w))
	}
	errs = append(errs, during())
	var sum load.Result
	for i, p := range g.list {
		var r load.Result
		errs = append(errs, json.NewDecoder(p.stdout).Decode(&r))
		if i == 0 {
			sum = r
		} else {
			sum.Merge(r)
		}
	}
	return sum, errors.Join(append(errs, g.Close())...)
}

// Close ends the processes and waits for them. A second Close does nothing.
func (g *Group) Close() error {
	var errs []error
	for _, p := range g.list {
		p.stdin.Close() // it ends a child that waits for its window
	}
	for _, p := range g.list {
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("child: %w: %s", err, p.stderr.text))
		}
	}
	g.list = nil
	return errors.Join(errs...)
}

// A tail keeps the end of what is written to it.
type tail struct{ text []byte }

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}
