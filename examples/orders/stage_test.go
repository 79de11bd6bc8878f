package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// playEnv makes the test binary the program. Its value is the address of the
// roll, where each process of the program reports at its start; the
// connection ends with the process.
const playEnv = "ORDERS_TEST_ROLL"

// limit bounds one run of the program, on a busy machine with -race.
const limit = 60 * time.Second

func TestMain(m *testing.M) {
	roll := os.Getenv(playEnv)
	if roll == "" {
		os.Exit(m.Run())
	}
	conn, err := net.Dial("tcp", roll)
	if err != nil {
		fail("roll", err)
	}
	defer conn.Close()
	redisAway = 500 * time.Millisecond
	main()
}

// A roll knows which processes of a program live.
type roll struct {
	listener net.Listener
	follow   sync.WaitGroup // the accept loop, and one per process

	mu      sync.Mutex
	started int
}

func callRoll(t *testing.T) *roll {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &roll{listener: l}
	r.follow.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.started++
			r.mu.Unlock()
			r.follow.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			})
		}
	})
	return r
}

// close fails the test unless want processes were started and all end soon.
func (r *roll) close(t *testing.T, want int) {
	t.Helper()
	_ = r.listener.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.follow.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("a process outlived the program")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started != want {
		t.Errorf("processes started = %d, want %d", r.started, want)
	}
}

// program is a prepared run of the program, with its stderr in errs.
func program(t *testing.T, r *roll, redis string, args ...string) (cmd *exec.Cmd, errs *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), playEnv+"="+r.listener.Addr().String(), redisEnv+"="+redis)
	cmd.WaitDelay = time.Second
	errs = new(bytes.Buffer)
	cmd.Stderr = errs
	return cmd, errs
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}
