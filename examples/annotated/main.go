// Annotated locks functions by a line above them: //lockmw:lock. lockgen has made
// decorators of these lines, which are called below.
//
//	go run ./examples/annotated
//
// Ten goroutines pay one order and move pieces from shelf to shelf: each reads a number,
// and writes it back a moment later. With the decorators every payment counts and no
// piece is lost, as it would be in ten processes. Without them most payments are
// overwritten. Then the report is called three times, as by three instances of a service
// one after the other: the lock of the first call outlives it.
//
// Orders (an interface) is in orders.go, Stock (a type) in stock.go, Report (a function)
// in report.go. After a change of a line above a method: go generate ./...
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

	stock := newStock()
	if err := work(ctx, out, "with the decorators", LockOrders(new(Ledger), locks), LockStock(stock, locks), stock); err != nil {
		return err
	}
	stock = newStock()
	if err := work(ctx, out, "without them", new(Ledger), stock, stock); err != nil {
		return err
	}
	return reports(ctx, out, LockReport(locks))
}

func newStock() *Stock {
	s := &Stock{Region: "eu", Shelves: make(map[string]*atomic.Int64)}
	for _, shelf := range shelves {
		s.Shelves[shelf] = new(atomic.Int64)
		s.Shelves[shelf].Store(100)
	}
	return s
}

var shelves = []string{"a", "b", "c"}

// A mover is what *Stock and *LockedStock have in common.
type mover interface {
	Move(ctx context.Context, from, to string, pieces int64) error
}

// work pays and moves, and prints what came of it.
func work(ctx context.Context, out io.Writer, how string, orders Orders, moves mover, stock *Stock) error {
	err := crowd(func(i int) error {
		_, err := orders.Pay(ctx, Order{ID: "42", Cents: 100})
		return errors.Join(err, moves.Move(ctx, shelves[i%3], shelves[(i+1)%3], 1))
	})
	if err == nil {
		fmt.Fprintf(out, "%-20s %3d of 200 payments count, %3d of 300 pieces are there\n", how, orders.Payments(), stock.Pieces())
	}
	return err
}

// crowd has ten goroutines call f, twenty times each.
func crowd(f func(i int) error) error {
	errs := make([]error, 10)
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() {
			for i := range 20 {
				if errs[g] = f(g + i); errs[g] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// reports calls the report three times, as three instances would whose clocks differ.
func reports(ctx context.Context, out io.Writer, report func(context.Context, io.Writer) error) error {
	for i := range 3 {
		fmt.Fprintf(out, "call %d: ", i+1)
		err := report(ctx, out)
		switch {
		case errors.Is(err, lockmw.ErrNotAcquired):
			fmt.Fprintln(out, "another call has done that")
		case err != nil:
			return err
		}
	}
	return nil
}
