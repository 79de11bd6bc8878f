// Withlock locks plain functions.
//
//	go run ./examples/withlock
//
// Ten goroutines add to an account: they read it, and write it back a moment
// later. Under the lock every addition counts, as it would in ten processes.
// Without it most are overwritten.
//
// REDIS_ADDR names a Redis; without it one runs inside the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/examples/internal/demo"
	"github.com/lockmw/kit/lockmw"
)

func main() { demo.Run(func(ctx context.Context) error { return run(ctx, os.Stdout) }) }

func run(ctx context.Context, out io.Writer) error {
	client, closeRedis, err := demo.Open(ctx)
	if err != nil {
		return err
	}
	defer closeRedis()
	locks, err := lockmw.New(client)
	if err != nil {
		return err
	}
	defer locks.Close(context.WithoutCancel(ctx))

	var account atomic.Int64 // reading and writing are two steps all the same
	add := func(_ context.Context, amount int64) (int64, error) {
		balance := account.Load() + amount
		time.Sleep(time.Millisecond)
		account.Store(balance)
		return balance, nil
	}
	// Wrap decorates a function once. WithLock is for a piece of one.
	addLocked := lockmw.Wrap(locks, func(int64) (string, error) { return "account", nil }, lockmw.Policy{Wait: time.Minute}, add)

	if err := crowd(ctx, addLocked); err != nil {
		return err
	}
	err = locks.WithLock(ctx, "account", lockmw.Policy{}, func(context.Context) error {
		fmt.Fprintf(out, "with the lock  %3d of 200 additions count\n", account.Swap(0))
		return nil
	})
	if err != nil {
		return err
	}
	err = crowd(ctx, add)
	fmt.Fprintf(out, "without it     %3d of 200\n", account.Load())
	return err
}

// crowd has ten goroutines add 1, twenty times each.
func crowd(ctx context.Context, add func(context.Context, int64) (int64, error)) error {
	errs := make([]error, 10)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for range 20 {
				if _, errs[i] = add(ctx, 1); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
