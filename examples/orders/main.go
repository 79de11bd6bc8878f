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
// program. Further things to try, in this folder, which is a module of its own:
//
//	go run . -h
//	go run . -clients 200 -rounds 3 -shops 2
//	go run . -serve
//	REDIS_ADDR=127.0.0.1:6379 go run .
//
// With -serve the shops stay open, each with a console for operators and with metrics
// for Prometheus. Customers, an operator and a report that hangs give them something to
// show.
//
// Start reading at shop.go, where the lock is. Then ledger.go, what it guards,
// and clients.go, who comes. Of -serve it is more.go (locks of other kinds), cast.go (who
// comes) and serve.go. The rest is the stage: runshop.go, processes.go, server.go,
// redis.go, ownredis.go, progress.go and report.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// order is the one that everybody pays.
const order = "42"

func main() {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case shopCommand:
			fail("shop", runShop())
			return
		case redisCommand:
			fail("Redis", runRedis())
			return
		}
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
	addr                   string
}

func (o options) payments() int { return o.clients * o.rounds }

const usage = `Usage: go run . [flags]

Many clients pay one order at several shop processes, with the lock and
without it. Exits with 1 unless the locked run counts every payment.
With -serve the shops stay open, and there is something to see of everything.

`

const usageEnd = `
REDIS_ADDR names a Redis, as host:port or redis://user:password@host:port/db.
Without it an embedded one runs inside the program; with -serve it is a
redis-server of its own, where there is one in PATH.
`

// parse reads the flags. It reports mistakes on stderr by itself.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("orders", flag.ContinueOnError)
	f.IntVar(&o.clients, "clients", 1000, "`number` of clients that pay at the same time;\na shop refuses more than about 1000 of them")
	f.IntVar(&o.rounds, "rounds", 10, "`number` of payments that each client makes")
	f.IntVar(&o.shops, "shops", 4, "`number` of shop processes")
	f.BoolVar(&o.without, "without", true, "run without the lock, too")
	f.BoolVar(&o.serve, "serve", false, "instead keep the shops open, with customers, a console and metrics,\nuntil Ctrl-C")
	f.StringVar(&o.addr, "addr", defaultAddr, "`address` of the first shop with -serve; the others have\nthe ports after it, or any that are free if it is port 0")
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

// defaultAddr is what dashboards/prometheus.yml scrapes, with the ports after it.
const defaultAddr = "127.0.0.1:8080"

// addrs are where the shops listen: with -serve at ports that one knows beforehand.
func (o options) addrs() ([]string, error) {
	addrs := make([]string, o.shops)
	host, port, err := net.SplitHostPort(o.addr)
	if err != nil {
		return nil, fmt.Errorf("-addr: %w", err)
	}
	first, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("-addr: the port %q is no number", port)
	}
	if first+uint64(o.shops)-1 > math.MaxUint16 {
		return nil, fmt.Errorf("-addr: there are no %d ports from %d on", o.shops, first)
	}
	for i := range addrs {
		switch {
		case !o.serve:
			addrs[i] = anyPort
		case first == 0:
			addrs[i] = o.addr
		default:
			addrs[i] = net.JoinHostPort(host, strconv.FormatUint(first+uint64(i), 10))
		}
	}
	return addrs, nil
}

// run opens the stage, plays, and clears everything away again, whatever
// happens. It ends early, with the reason, when ctx ends or a shop does.
func run(ctx context.Context, o options) (err error) {
	stage, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	addrs, err := o.addrs()
	if err != nil {
		return err
	}
	var told story
	open := openRedis
	if o.serve {
		told.w = os.Stdout
		open = told.openRedis
	}
	db, err := open(stage)
	if err != nil {
		return err
	}
	defer db.close()

	books := newLedger()
	web, err := listen(anyPort, books.routes())
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer web.stop()

	shops, err := startShops(stage, addrs, db.addr, web.url, cancel)
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
	announce(os.Stdout, o, shops.urls(), web.url, db)
	if err := told.perform(stage, db, shops.urls()); err != nil {
		return err
	}
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
