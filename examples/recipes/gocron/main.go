// Command gocron runs jobs of gocron in one of many processes: start it three times. With -leader
// one of the three runs all jobs; without it each run is made by whoever takes its lock first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// A locker is for gocron.WithDistributedLocker: each planned run of a job has a lock of its own.
// Each job needs a name of its own, and the same times in all processes: a CronJob, or a start time.
type locker struct {
	locks  *lockmw.Locker
	policy lockmw.Policy
	jobs   func() []gocron.Job // of the scheduler
}

func (l *locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	for _, job := range l.jobs() {
		if job.Name() != name {
			continue
		}
		planned, err := job.NextRun() // while gocron asks for its lock, that is the run which is due
		if err != nil {
			return nil, err
		}
		if planned.IsZero() {
			return nil, fmt.Errorf("the time is not known for which job %q was planned", name)
		}
		_, lease, err := l.locks.Acquire(ctx, name+" "+planned.UTC().Format(time.RFC3339), l.policy)
		if err != nil {
			return nil, err // gocron skips this run
		}
		return lock{lease}, nil
	}
	return nil, fmt.Errorf("the scheduler has no job %q", name)
}

type lock struct{ lease *lockmw.Lease }

func (l lock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }

// An elector is for gocron.WithDistributedElector. Leader.Run goes on beside the scheduler.
type elector struct{ leader *lockmw.Leader }

var errNotLeader = errors.New("another process leads")

func (e elector) IsLeader(context.Context) error {
	if !e.leader.IsLeader() {
		return errNotLeader
	}
	return nil
}

// byLock returns a scheduler whose runs each have a lock.
func byLock(locks *lockmw.Locker) (gocron.Scheduler, error) {
	l := &locker{locks: locks, policy: lockmw.Policy{Prefix: "job:", MinHold: 10 * time.Minute, MinHoldOnError: true}}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(l), gocron.WithLocation(time.UTC))
	if err == nil {
		l.jobs = s.Jobs
	}
	return s, err
}

// byLeader returns a scheduler that runs its jobs while this process leads.
func byLeader(leader *lockmw.Leader) (gocron.Scheduler, error) {
	return gocron.NewScheduler(gocron.WithDistributedElector(elector{leader}), gocron.WithLocation(time.UTC))
}

func main() {
	lead := flag.Bool("leader", false, "one process runs all jobs")
	flag.Parse()
	if err := run(*lead); err != nil {
		log.Fatal(err)
	}
}

func run(lead bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	var s gocron.Scheduler
	if lead {
		leader := locks.Leader("jobs", lockmw.Policy{Prefix: "leader:", TTL: 5 * time.Second})
		s, err = byLeader(leader)
		go func() {
			defer close(ended)
			_ = leader.Run(ctx, func(ctx context.Context) error { // it leads until the program ends
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
	} else {
		s, err = byLock(locks)
		close(ended)
	}
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.CronJob("* * * * * *", true), // each second, to try it
		gocron.NewTask(func() { slog.Info("the report is written here") }), gocron.WithName("report"))
	if err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	err = s.Shutdown()
	<-ended
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, locks.Close(last), client.Close())
}
