package lockmw_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/lockmw"
)

// endingEnv has this test's program be a process of TestAProcessThatEndsBehindItsRelease.
const endingEnv = "LOCKMW_TEST_ENDING" // address of the Redis

const (
	endingKey   = "last"
	endingBusy  = 64 // goroutines beside the one that releases
	endingTurns = 50 // of each of them, before the release
)

// endsBehindItsRelease gives a lock back while others of the process take turns over the same connections, and ends the process.
func endsBehindItsRelease(addr string) error {
	ctx := context.Background()
	locks, err := lockmw.New(redis.NewClient(&redis.Options{Addr: addr}))
	if err != nil {
		return err
	}
	p := lockmw.Policy{TTL: time.Minute, Wait: time.Minute, AsyncRelease: true}
	_, lease, err := locks.Acquire(ctx, endingKey, p)
	if err != nil {
		return err
	}
	var warm sync.WaitGroup
	for i := range endingBusy {
		warm.Add(1)
		go func() {
			for turn := 0; ; turn++ { // until the process ends
				_, own, err := locks.Acquire(ctx, fmt.Sprint("busy ", os.Getpid(), " ", i), p)
				if err == nil {
					err = own.Release(ctx)
				}
				if err != nil {
					panic(err)
				}
				if turn == endingTurns {
					warm.Done()
				}
			}
		}()
	}
	warm.Wait()
	if err := lease.Release(ctx); err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

// A process that ends right behind a Release that is not awaited takes nothing with it, busy as it is: the release was written.
func TestAProcessThatEndsBehindItsRelease(t *testing.T) {
	slow.Test(t)
	const processes = 60
	s := redistest.Real(t)
	client := s.Client(t)
	lost := 0
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), endingEnv+"="+s.Addr())
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		free := func() bool { return client.Exists(t.Context(), "lock:{"+endingKey+"}").Val() == 0 }
		for end := time.Now().Add(time.Second); !free() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		if !free() {
			lost++
			client.FlushAll(t.Context())
		}
	}
	t.Logf("%d of %d releases were lost", lost, processes)
	if most := processes / 6; lost > most { // those of a machine that stands still. 25 to 53 were lost when Release did not wait for whoever writes
		t.Errorf("%d of %d releases were lost, want at most %d", lost, processes, most)
	}
}
