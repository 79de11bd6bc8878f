package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Main runs the sides beside each other on the Redis that REDIS_ADDR names, or else on localhost:6379, and
// prints what became of it. The exit status is 1 if both were at work at the same time, or something was
// left in Redis.
func Main(sides ...Side) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := report(ctx, os.Stdout, os.Getenv("REDIS_ADDR"), sides)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func report(ctx context.Context, out io.Writer, addr string, sides []Side) (err error) {
	client := redis.NewClient(&redis.Options{Addr: addr}) // without one: localhost:6379
	defer client.Close()
	ledger := NewLedger(client)
	defer func() { err = errors.Join(err, ledger.Erase(context.WithoutCancel(ctx))) }()
	results, err := ledger.Run(ctx, Load{Keys: 2, Callers: 3, Jobs: 50}, sides...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-8s  %5s  %7s\n", "", "jobs", "refused")
	for _, r := range results {
		fmt.Fprintf(out, "%-8s  %5d  %7d\n", r.Name, r.Jobs, r.Refused)
	}
	lost, err := ledger.Lost(ctx)
	if err != nil {
		return err
	}
	left, err := ledger.Settle(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a lock went from one to the other %d times, both had it %d times, %d jobs were overwritten\n", ledger.Turns(), ledger.Overlaps(), lost)
	if ledger.Overlaps() > 0 || lost > 0 || len(left) > 0 {
		return fmt.Errorf("overlaps: %d, lost: %d, left in Redis: %q", ledger.Overlaps(), lost, left)
	}
	return nil
}

// Settle waits until nothing is left in Redis but the numbers, for at most ten seconds, and returns what is
// left then. Who waited is known to Redis for some seconds longer.
func (l *Ledger) Settle(ctx context.Context) (left []string, err error) {
	end := time.After(10 * time.Second)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if left, err = l.Left(ctx); err != nil || len(left) == 0 {
			return left, err
		}
		select {
		case <-look.C:
		case <-end:
			return left, nil
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}
