package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// onEachCore has a process for each core take its share of the seeds, and is told what came of each. A bubble of synctest works on
// one core at a time, and for one process with several of them the collector and the scheduler cost more than they gain. It ends when more returns false, too.
func onEachCore(t *testing.T, from uint64, more func(seen) bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex // more is called by one at a time
	var all sync.WaitGroup
	cores := runtime.NumCPU()
	for i := range cores {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, self, "-test.run", "^TestSimulate$", "-test.timeout", "0")
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprint("SIM_STEP=", cores), fmt.Sprint("SIM_FROM=", from+uint64(i)))
			err := follow(cmd, func(s seen) {
				mu.Lock()
				defer mu.Unlock()
				if ctx.Err() == nil && !more(s) {
					stop()
				}
			})
			if err != nil && ctx.Err() == nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

// follow runs a process and tells what it tells.
func follow(cmd *exec.Cmd, tell func(seen)) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout // a panic's, too
	if err := cmd.Start(); err != nil {
		return err
	}
	var begun uint64
	var other []string // what is no seed, such as a panic
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s seen
		switch err := json.Unmarshal(lines.Bytes(), &s); {
		case err != nil:
			other = append(other, lines.Text())
		case s.Begins:
			begun = s.Seed
		default:
			tell(s)
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		return fmt.Errorf("in seed %d: %w\n%s", begun, err, strings.Join(other, "\n"))
	}
	return nil
}
