package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// onEachCore has a process for each core take its share of the seeds for so long, and is told what came of each. A bubble of synctest works
// on one core at a time, and for one process with several of them the collector and the scheduler cost more than they gain. A process that
// ends by a panic or a hang is wrong, too, and another one goes on behind its seed. It ends when more returns false.
func onEachCore(t *testing.T, from uint64, long time.Duration, more func(seen) bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex // more is called by one at a time
	tell := func(s seen) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil && !more(s) {
			stop()
		}
	}
	end := time.Now().Add(long)
	cores := runtime.NumCPU()
	var all sync.WaitGroup
	for i := range cores {
		all.Go(func() {
			next := from + uint64(i)
			for left := long; left > 0 && ctx.Err() == nil; left = time.Until(end) {
				cmd := exec.CommandContext(ctx, self, "-test.run", "^TestSimulate$", "-test.timeout", "0")
				cmd.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprint("SIM_STEP=", cores), fmt.Sprint("SIM_FROM=", next), fmt.Sprint("SIM_FOR=", left))
				begun, err := follow(cmd, tell)
				if err == nil || ctx.Err() != nil {
					return
				}
				if begun < next { // not even its first
					t.Errorf("process %d: %v", i, err)
					return
				}
				tell(seen{Seed: begun, Result: Result{Wrong: []string{err.Error()}}})
				next = begun + uint64(cores)
			}
		})
	}
	all.Wait()
}

// follow runs a process and tells what it tells. It returns the last seed that has begun.
func follow(cmd *exec.Cmd, tell func(seen)) (begun uint64, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stderr = cmd.Stdout // a panic's, too
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var other strings.Builder // what is no seed, such as a panic
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		var s seen
		switch {
		case json.Unmarshal(line, &s) != nil:
			other.Write(line)
		case s.Begins:
			begun = s.Seed
		default:
			tell(s)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return begun, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
	if err := cmd.Wait(); err != nil {
		return begun, fmt.Errorf("it ends by itself: %w\n%s", err, other.String())
	}
	return begun, nil
}
