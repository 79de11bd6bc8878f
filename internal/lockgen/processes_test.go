package lockgen_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/lockgen/testdata/golden/counter"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// childEnv has this test's program be a process of
// TestTwoProcessesCountExactlyWithTheDecorator. It is the address of the Redis.
const childEnv = "LOCKGEN_TEST_CHILD"

const (
	processes  = 2
	goroutines = 4
	increments = 1000 // of each process
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		if err := child(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}

// child counts with the decorator, and, on another counter, without it.
func child(addr string) error {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	locks, err := lockmw.New(client)
	if err != nil {
		return err
	}
	defer locks.Close(ctx)
	if err := count(ctx, counter.LockCounter(&counter.Counter{Client: client, Name: "with"}, locks).Add); err != nil {
		return err
	}
	return count(ctx, (&counter.Counter{Client: client, Name: "without"}).Add)
}

func count(ctx context.Context, add func(context.Context) error) error {
	errs := make(chan error, goroutines)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range increments / goroutines {
				if err := add(ctx); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

func TestTwoProcessesCountExactlyWithTheDecorator(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	var running []*exec.Cmd
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+s.Addr())
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	client := s.Client(t)
	with, err := client.Get(t.Context(), "with").Int()
	if want := processes * increments; err != nil || with != want {
		t.Errorf("with the decorator %d of %d increments count, %v", with, want, err)
	}
	without, err := client.Get(t.Context(), "without").Int()
	if err != nil || without >= with {
		t.Errorf("without the decorator all increments count, too (%d, %v): it shows nothing", without, err)
	}
	t.Logf("of %d increments of %d processes count %d with the decorator, %d without", processes*increments, processes, with, without)
}
