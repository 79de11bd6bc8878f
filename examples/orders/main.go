// Orders shows the lock doing its main job on real input.
//
// Four shop processes take payments. A payment reads an order's balance from
// a ledger, adds one and writes it back, all over HTTP. The ledger has no
// locking of its own, so two payments at the same time lose one of them. A
// thousand clients pay the same order ten times each, first with one line of
// lock beside the route, then without it:
//
//	make demo
//
// Nothing else is needed: without REDIS_ADDR an embedded Redis runs inside the
// program. Further things to try:
//
//	go run ./examples/orders -h
//	go run ./examples/orders -clients 200 -rounds 3 -shops 2
//	go run ./examples/orders -serve
//	REDIS_ADDR=127.0.0.1:6379 go run ./examples/orders
//
// Start reading at shop.go, where the lock is. Then ledger.go, what it guards,
// and clients.go, who comes. The rest is the stage: processes.go, server.go,
// redis.go, serve.go, progress.go and report.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// order is the one that everybody pays.
const order = "42"

func main() {
	if len(os.Args) == 2 && os.Args[1] == shopCommand {
		fail("shop", runShop())
		return
	}
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // parse has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	fail("orders", run(ctx, o))
}

// fail ends the program with status 1 if err is not nil.
func fail(who string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", who, err)
		os.Exit(1)
	}
}

type options struct {
	clients, rounds, shops int
	without, serve         bool
}

func (o options) payments() int { return o.clients * o.rounds }

const usage = `Usage: go run ./examples/orders [flags]

Many clients pay one order at several shop processes, with the lock and
without it. Exits with 1 unless the locked run counts every payment.

`

const usageEnd = `
REDIS_ADDR names a Redis, as host:port or redis://user:password@host:port/db.
Without it an embedded one runs inside the program.
`

// parse reads the flags. It reports mistakes on stderr by itself.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("orders", flag.ContinueOnError)
	f.IntVar(&o.clients, "clients", 1000, "`number` of clients that pay at the same time;\na shop refuses more than about 1000 of them")
	f.IntVar(&o.rounds, "rounds", 10, "`number` of payments that each client makes")
	f.IntVar(&o.shops, "shops", 4, "`number` of shop processes")
	f.BoolVar(&o.without, "without", true, "run without the lock, too")
	f.BoolVar(&o.serve, "serve", false, "keep the shops open for curl instead")
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
		fmt.Fprint(f.Output(), usageEnd)
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	err := o.check(f.Args())
	if err != nil {
		fmt.Fprintf(f.Output(), "orders: %v; -h shows the flags\n", err)
	}
	return o, err
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unknown argument %q", rest[0])
	case o.clients < 1 || o.rounds < 1 || o.shops < 1:
		return errors.New("-clients, -rounds and -shops must be at least 1")
	}
	return nil
}

// run opens the stage, plays, and clears everything away again, whatever
// happens. It ends early, with the reason, when ctx ends or a shop does.
func run(ctx context.Context, o options) (err error) {
	stage, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	db, err := openRedis(stage)
	if err != nil {
		return err
	}
	defer db.close()

	books := newLedger()
	web, err := listen(books.routes())
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer web.stop()

	shops, err := startShops(stage, o.shops, db.addr, web.url, cancel)
	defer func() {
		unexplained := err != nil && stage.Err() == nil
		err = errors.Join(err, shops.stop(unexplained))
	}()
	switch {
	case err != nil:
		return err
	case !o.serve:
		introduce(os.Stdout, o, db)
		return play(stage, cancel, o, db, shops.urls(), books)
	}
	announce(os.Stdout, shops.urls(), web.url, db)
	<-stage.Done()
	if ctx.Err() != nil { // Ctrl-C is the good end
		return nil
	}
	return context.Cause(stage)
}

// play has the clients pay with the lock and without it, and reports.
func play(ctx context.Context, cancel context.CancelCauseFunc, o options, db *database, shops []string, books *ledger) error {
	crowd, err := newCrowd(o, shops)
	if err != nil {
		return err
	}
	defer crowd.leave()
	if err := crowd.tryLock(ctx); err != nil {
		return err
	}
	defer db.watch(ctx, cancel)()

	locked, err := crowd.pay(ctx, "with the lock", "/orders/"+order+"/pay")
	if err != nil {
		return err
	}
	locked.count = books.take(order)
	results := []result{locked}
	if o.without {
		free, err := crowd.pay(ctx, "without it", "/unlocked/orders/"+order+"/pay")
		if err != nil {
			return err
		}
		free.count = books.take(order)
		results = append(results, free)
	}
	table(os.Stdout, results)
	if !locked.exact() {
		return locked.shortfall()
	}
	return nil
}

func introduce(w io.Writer, o options, db *database) {
	fmt.Fprintf(w, `%d clients pay order %s, %d times each, at %d shop processes. A payment reads the
order's balance from a ledger, adds one and writes it back, over HTTP. Only the
lock beside the shops' route keeps two payments from overwriting each other.
Redis: %s

`, o.clients, order, o.rounds, o.shops, db)
}
