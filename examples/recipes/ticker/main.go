// Command ticker runs a job at each full interval of the clock, in one of many processes, and never
// beside the job's last run.
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// every is the interval: a second, to try it.
const every = time.Second

var (
	once  = lockmw.Policy{Prefix: "cleanup:", MinHold: 10 * time.Minute, MinHoldOnError: true}
	alone = lockmw.Policy{Prefix: "cleanup:"} // and the key "at work"
)

// loop runs job until ctx ends.
func loop(ctx context.Context, locks *lockmw.Locker, job func(ctx context.Context, slot time.Time) error) {
	for {
		next := time.Now().Truncate(every).Add(every)
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return
		}
		slot := due(next, time.Now())
		ran, err := runOnce(ctx, locks, slot, job)
		switch {
		case err != nil && ctx.Err() == nil:
			slog.Error("the job failed", "slot", slot, "ran", ran, "error", err)
		case ran:
			slog.Info("the job is done", "slot", slot)
		}
	}
}

// due returns the slot that is due at now, after a wait for next. Whoever was stopped for a while comes
// for a later one. A clock that was set back meanwhile does not make it an earlier one, which was run.
func due(next, now time.Time) time.Time {
	if slot := now.Truncate(every); slot.After(next) {
		return slot
	}
	return next
}

// runOnce runs job, unless another process runs it for this slot, or has, or is still at work for an earlier one.
func runOnce(ctx context.Context, locks *lockmw.Locker, slot time.Time, job func(ctx context.Context, slot time.Time) error) (ran bool, err error) {
	_, err = locks.Once(ctx, slot.UTC().Format(time.RFC3339), once, func(ctx context.Context) error {
		ran, err = locks.Once(ctx, "at work", alone, func(ctx context.Context) error { return job(ctx, slot) })
		return err
	})
	return ran, err
}

func cleanup(ctx context.Context, _ time.Time) error {
	return ctx.Err() // the work; ctx ends if a lock is lost, and when the program ends
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	loop(ctx, locks, cleanup)
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(locks.Close(last), client.Close())
}
