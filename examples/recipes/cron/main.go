// Command cron runs a job of robfig/cron in one of many processes: start it three times, and each
// run is made by one of the three.
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
	"github.com/robfig/cron/v3"

	"github.com/lockmw/kit/lockmw"
)

// once is for jobs: the key of a run stays taken for MinHold, whether the run succeeds or fails.
var once = lockmw.Policy{Prefix: "report:", MinHold: 10 * time.Minute, MinHoldOnError: true}

// schedule runs job at the times of spec, in one of the processes that do the same. Call it before
// c.Start.
func schedule(ctx context.Context, c *cron.Cron, spec string, locks *lockmw.Locker, job func(ctx context.Context, planned time.Time) error) error {
	var id cron.EntryID
	id, err := c.AddFunc(spec, func() {
		planned := c.Entry(id).Prev // the time for which this run was planned; the clock may be ahead of it
		ran, err := locks.Once(ctx, planned.UTC().Format(time.RFC3339), once, func(ctx context.Context) error {
			return job(ctx, planned)
		})
		if err != nil {
			slog.Error("the job failed", "planned", planned, "ran", ran, "error", err)
		}
	})
	return err
}

func report(ctx context.Context, planned time.Time) error {
	slog.Info("the report is written here", "of", planned)
	return ctx.Err() // ctx ends if the lock is lost, and when the program ends
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
	c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
	if err := schedule(ctx, c, "* * * * * *", locks, report); err != nil { // each second, to try it
		return err
	}
	c.Start()
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	select {
	case <-c.Stop().Done(): // the runs under way have ended
	case <-last.Done():
	}
	return errors.Join(locks.Close(last), client.Close())
}
