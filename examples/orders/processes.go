package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

const (
	shopOpens  = 20 * time.Second // on a busy machine
	shopCloses = 8 * time.Second  // a second for requests, and locksClose
)

// A process is a running shop, or what runs Redis.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer     // the process ends when this is closed, by us or by our end
	said  clip          // its stderr, to be read after done
	line  string        // the first one that it printed: a shop's URL
	ready chan struct{} // closed when line is known
	done  chan struct{} // closed when the process has ended
	err   error         // how, after done
}

// processes are all shops, or what runs Redis.
type processes struct {
	list     []*process
	stopping atomic.Bool
}

// startShops starts n shops and returns when all of them are open. One that
// ends before its time cancels with the reason. The caller stops the shops,
// even after an error.
func startShops(ctx context.Context, addrs []string, redisAddr, ledgerURL string, cancel context.CancelCauseFunc) (*processes, error) {
	ps := &processes{}
	for i, addr := range addrs {
		err := ps.start(fmt.Sprintf("shop %d", i+1), shopCommand, cancel, redisEnv+"="+redisAddr, ledgerEnv+"="+ledgerURL,
			addrEnv+"="+addr, fmt.Sprintf("%s=shop-%d", nameEnv, i+1))
		if err != nil {
			return ps, err
		}
	}
	return ps, ps.await(ctx)
}

// await returns when all processes have said that they are ready.
func (ps *processes) await(ctx context.Context) error {
	opened, stop := context.WithTimeoutCause(ctx, shopOpens, fmt.Errorf("%s did not start within %v", ps.list[0].name, shopOpens))
	defer stop()
	for _, p := range ps.list {
		select {
		case <-p.ready:
		case <-opened.Done():
			return context.Cause(opened)
		}
	}
	return nil
}

// start starts this program with a command and settings, and a goroutine that follows it
// to its end. If that comes before stop is called, ended is told.
func (ps *processes) start(name, command string, ended context.CancelCauseFunc, env ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{name: name, cmd: exec.Command(program, command), ready: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.said
	if err := ps.run(p, ended); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (ps *processes) run(p *process, ended context.CancelCauseFunc) error {
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.stdin = stdin
	ps.list = append(ps.list, p)
	go func() {
		defer close(p.done)
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err == nil {
			p.line = strings.TrimSpace(line)
			close(p.ready)
		}
		p.err = p.cmd.Wait()
		if !ps.stopping.Load() {
			ended(fmt.Errorf("%s ended before its time", p.name)) // stop says how
		}
	}()
	return nil
}

func (ps *processes) urls() []string {
	urls := make([]string, len(ps.list))
	for i, p := range ps.list {
		urls[i] = p.line
	}
	return urls
}

// stop ends the processes and waits for them. Its error has what those said that
// failed or, with all, the first lines of what any said.
func (ps *processes) stop(all bool) error {
	ps.stopping.Store(true)
	for _, p := range ps.list {
		_ = p.stdin.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shopCloses)
	defer cancel()
	var errs []error
	for _, p := range ps.list {
		select {
		case <-p.done:
		case <-ctx.Done():
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		switch {
		case p.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w%s", p.name, p.err, p.said.lines(math.MaxInt)))
		case all && len(p.said.text) > 0:
			errs = append(errs, fmt.Errorf("%s said:%s", p.name, p.said.lines(3)))
		}
	}
	return errors.Join(errs...)
}

// A clip keeps the beginning of what is written to it, where a panic or the
// first error is.
type clip struct{ text []byte }

const clipSize = 4 << 10

func (c *clip) Write(p []byte) (int, error) {
	c.text = append(c.text, p[:min(len(p), clipSize-len(c.text))]...)
	return len(p), nil
}

// lines returns the first n lines, indented.
func (c *clip) lines(n int) string {
	var out strings.Builder
	for line := range strings.Lines(string(c.text)) {
		if n--; n < 0 {
			break
		}
		out.WriteString("\n  " + strings.TrimRight(line, "\n"))
	}
	return out.String()
}
