package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func everySecond(t *testing.T, s gocron.Scheduler, task func()) {
	t.Helper()
	if _, err := s.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(task), gocron.WithName("report")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

func TestEachPlannedRunIsMadeOnce(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	locks := locktest.New(t, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == lockmw.EventAcquired {
			keys = append(keys, e.Key)
		}
	}))
	runs := make(chan struct{}, 100)
	for range 3 { // as three processes
		s, err := byLock(locks)
		if err != nil {
			t.Fatal(err)
		}
		everySecond(t, s, func() { runs <- struct{}{} })
	}
	for range 4 {
		<-runs
	}
	mu.Lock()
	defer mu.Unlock()
	seen := make(map[string]bool)
	for _, key := range keys {
		planned, err := time.Parse("job:report "+time.RFC3339, key)
		if err != nil || time.Since(planned).Abs() > time.Minute || seen[key] {
			t.Errorf("the lock of a run is %q; it is the second: %v; error %v", key, seen[key], err)
		}
		seen[key] = true
	}
}

func TestOnlyTheLeaderRunsJobs(t *testing.T) {
	locks := locktest.New(t)
	leaders := [2]*lockmw.Leader{}
	runs := make(chan int, 100)
	first := make(chan struct{})
	for i := range leaders {
		leaders[i] = locks.Leader("jobs", lockmw.Policy{})
		ctx, resign := context.WithCancelCause(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- leaders[i].Run(ctx, func(ctx context.Context) error {
				if i == 0 {
					close(first)
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		t.Cleanup(func() {
			resign(lockmw.ErrResign)
			if err := <-done; !errors.Is(err, lockmw.ErrResign) {
				t.Errorf("Run: %v", err)
			}
		})
		if i == 0 {
			<-first
		}
	}
	for i, leader := range leaders {
		s, err := byLeader(leader)
		if err != nil {
			t.Fatal(err)
		}
		everySecond(t, s, func() { runs <- i })
	}
	for range 3 {
		if by := <-runs; by != 0 {
			t.Fatal("one that does not lead runs the job")
		}
	}
}
