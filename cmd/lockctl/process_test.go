package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A program is lockctl in a process of its own.
type program struct {
	*exec.Cmd

	out, errs bytes.Buffer
}

// program prepares lockctl with variables and arguments.
func newProgram(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	p.Env = append(append(os.Environ(), asProgram+"=1", "TERM=xterm"), env...)
	p.Stdout, p.Stderr = &p.out, &p.errs
	return p
}

func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := newProgram(t, env, args...)
	p.begin(t)
	return p
}

func (p *program) begin(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}

// ended waits for its end. The status of one that a signal has ended is negative.
func (p *program) ended(t *testing.T) call {
	t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	number := p.ProcessState.ExitCode()
	if by, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && by.Signaled() {
		number = -int(by.Signal())
	}
	return call{status(number), p.out.String(), p.errs.String()}
}

// fill gives the server locks without number.
func fill(t *testing.T, client redis.UniversalClient, locks int) {
	t.Helper()
	pipe := client.Pipeline()
	for i := range locks {
		pipe.Set(t.Context(), fmt.Sprintf("lock:{order:%d}", i), "web-7-0123456789.00000000-0000-4000-8000-000000000000:1", 10*time.Minute)
		if i%1000 == 999 || i == locks-1 {
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// As with lockctl ls | head -1.
func TestAReaderThatLeavesEndsIt(t *testing.T) {
	server := redistest.Real(t)
	fill(t, server.Client(t), 5000)
	for _, output := range []string{"text", "json"} {
		p := newProgram(t, []string{"REDIS_URL=redis://" + server.Addr()}, "ls", "-o", output)
		p.Stdout = nil
		out, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.begin(t)
		if _, err := bufio.NewReader(io.LimitReader(out, 500)).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		if got := p.ended(t); got.status != -status(syscall.SIGPIPE) || got.errs != "" {
			t.Errorf("%s: status %d, stderr %q; want an end by SIGPIPE, without a word", output, got.status, got.errs)
		}
	}
}

func TestAnInterruptEndsWatch(t *testing.T) {
	server := redistest.Real(t)
	take(t, locker(t, server.Client(t)), "order:42", "", lockmw.Policy{})
	for _, output := range []string{"text", "json"} {
		p := newProgram(t, []string{"REDIS_URL=redis://" + server.Addr()}, "watch", "order:", "--every", "100ms", "-o", output)
		p.Stdout = nil
		out, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.begin(t)
		lines, seen := bufio.NewScanner(out), 0
		for seen < 3 && lines.Scan() {
			if strings.Contains(lines.Text(), "order:42") {
				seen++
			}
			if strings.Contains(lines.Text(), "\x1b") {
				t.Errorf("no terminal is told %q", lines.Text())
			}
		}
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		if got := p.ended(t); got.status != 0 || got.errs != "" || seen != 3 {
			t.Errorf("%s: %+v after %d lists", output, got, seen)
		}
	}
}

// An interrupt ends what waits for Redis or for an answer, and is no error.
func TestAnInterruptEndsTheRest(t *testing.T) {
	server := redistest.Real(t)
	take(t, locker(t, server.Client(t)), "order:42", "", lockmw.Policy{})
	url := "redis://" + server.Addr()
	in, nobody := io.Pipe()
	defer nobody.Close()
	ctx, cancel := context.WithCancel(t.Context())
	asked := &prompt{done: cancel}
	if number := run(ctx, []string{"release", "order:42", "--redis", url}, in, io.Discard, asked); number != statusInterrupted || !strings.HasSuffix(asked.String(), "[y/N] \n") {
		t.Errorf("release: status %d, %q", number, asked.String())
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	defer server.Cont()
	for _, args := range [][]string{{"ls"}, {"uncertain"}, {"show", "order:42"}, {"doctor"}, {"release", "-y", "order:42"}} {
		ctx, cancel := context.WithCancel(t.Context())
		var said bytes.Buffer
		time.AfterFunc(50*time.Millisecond, cancel) // whether it asks already or not
		if number := run(ctx, append(args, "--redis", url), strings.NewReader(""), &said, &said); number != statusInterrupted || said.Len() > 0 {
			t.Errorf("%s: status %d, %q", args[0], number, &said)
		}
	}
}

// A prompt is done when it has asked.
type prompt struct {
	bytes.Buffer

	done func()
}

func (p *prompt) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("[y/N]")) {
		p.done()
	}
	return p.Buffer.Write(b)
}

// Nobody can be asked in a job of cron.
func TestReleaseWithoutATerminal(t *testing.T) {
	server := redistest.Real(t)
	take(t, locker(t, server.Client(t)), "order:42", "", lockmw.Policy{})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close() // nobody writes, and nobody leaves
	defer read.Close()
	for what, in := range map[string]*os.File{"there is no terminal to ask at": read, "nobody has answered": nil} {
		p := newProgram(t, []string{"REDIS_URL=redis://" + server.Addr()}, "release", "order:42")
		if in != nil { // nil is /dev/null
			p.Stdin = in
		}
		p.begin(t)
		if got := p.ended(t); got.status != statusUnconfirmed || !strings.Contains(got.errs, what+"; --yes releases without asking") {
			t.Errorf("%+v, want %q", got, what)
		}
	}
}

// go-redis has a log of its own, which is none of the output.
func TestStderrIsSilent(t *testing.T) {
	watched := redistest.Sentinel(t)
	name, sentinels := watched.Sentinels()
	p := start(t, nil, "doctor", "--sentinel", name, "--redis", "redis://"+sentinels[0])
	if got := p.ended(t); got.status != 0 || got.errs != "" {
		t.Errorf("%+v", got)
	}
}
