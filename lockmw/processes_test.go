package lockmw_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// childEnv has this test's program be a process of TestPermitsOverProcesses.
const childEnv = "LOCKMW_TEST_CHILD" // address of the Redis

const (
	childPermits = 3
	childWorkers = 6
	childTurns   = 20
)

// child takes turns with other processes, and prints how many it saw inside in
// each: all count in one key of the Redis.
func child(addr string) error {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	locks, err := lockmw.New(client)
	if err != nil {
		return err
	}
	defer locks.Close(ctx)
	errs := make(chan error, childWorkers)
	var mu sync.Mutex
	for range childWorkers {
		go func() {
			for range childTurns {
				err := locks.WithLock(ctx, "k", lockmw.Policy{Permits: childPermits, Wait: time.Minute}, func(ctx context.Context) error {
					inside, err := client.Incr(ctx, "inside").Result()
					if err != nil {
						return err
					}
					mu.Lock()
					fmt.Fprintln(os.Stdout, "inside", inside)
					mu.Unlock()
					time.Sleep(2 * time.Millisecond) // the work
					return client.Decr(ctx, "inside").Err()
				})
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range childWorkers {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func TestPermitsOverProcesses(t *testing.T) {
	t.Parallel()
	const processes = 2
	s := redistest.Real(t)
	var outs [processes]bytes.Buffer
	var cmds []*exec.Cmd
	for i := range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+s.Addr())
		cmd.Stdout, cmd.Stderr = &outs[i], os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	turns, most := 0, 0
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		for line := range strings.Lines(outs[i].String()) {
			var inside int
			if _, err := fmt.Sscanf(line, "inside %d", &inside); err == nil {
				turns++
				most = max(most, inside)
			}
		}
	}
	if want := processes * childWorkers * childTurns; turns != want || most != childPermits {
		t.Errorf("%d turns with at most %d inside, want %d turns with %d", turns, most, want, childPermits)
	}
	t.Logf("%d turns of %d processes, at most %d inside", turns, processes, most)
}
