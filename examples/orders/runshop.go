package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockprom"
)

// shopCommand, as the only argument, makes this program a shop.
const shopCommand = "shop"

// A shop's settings come from its environment.
const (
	redisEnv  = "REDIS_ADDR"
	ledgerEnv = "LEDGER_URL"
	addrEnv   = "SHOP_ADDR" // to listen on
	nameEnv   = "SHOP_NAME" // what operators call the process
)

// locksClose is how long a shop gives back locks and places in line at its end.
const locksClose = 3 * time.Second

// runShop is a shop process: an ordinary service with one Locker for all of
// its requests. It prints its URL as a single line, and ends in good order
// when its standard input does, so it never outlives the program that
// started it.
func runShop() error {
	signal.Ignore(os.Interrupt) // Ctrl-C is the starter's, whose end ends us
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	gin.SetMode(gin.ReleaseMode)

	opts, err := redisOptions(os.Getenv(redisEnv))
	if err != nil {
		return err
	}
	client := redis.NewClient(opts)
	defer client.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	locks, err := lockmw.New(client, lockmw.WithLogger(log),
		lockmw.WithInstance(os.Getenv(nameEnv)), lockmw.WithNote(noteOf), lockprom.New(registry),
		lockmw.WithService("orders"), lockmw.WithSettings(lockmw.SettingsInRedis())) // lockctl policy set orders/pay wait=1s
	if err != nil {
		return err
	}
	defer func() { // after the requests, whose locks it would take away
		ctx, cancel := context.WithTimeout(context.Background(), locksClose)
		defer cancel()
		if err := locks.Close(ctx); err != nil {
			log.Warn("some locks end by their TTL only", "error", err)
		}
	}()
	s := &shop{ledger: newLedgerClient(os.Getenv(ledgerEnv)), log: log}
	web, err := listen(os.Getenv(addrEnv), withOperators(s.routes(locks), locks, registry))
	if err != nil {
		return fmt.Errorf("%w; -addr names another address", err)
	}
	defer web.stop()
	fmt.Println(web.url)

	select {
	case <-inputEnd():
		return nil
	case <-ctx.Done():
		return nil
	case err := <-web.ended:
		return err
	}
}

// withOperators adds to a shop what its operators want: the console and the metrics. In
// a real service they are for operators alone. This one listens on loopback.
func withOperators(shop http.Handler, locks *lockmw.Locker, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	console := lockadmin.Handler(locks, lockadmin.WithForceRelease(fromHere))
	mux.Handle(consolePath, console)
	mux.Handle(consolePath+"/", console)
	mux.Handle(metricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", shop)
	return mux
}

const (
	consolePath = "/console"
	metricsPath = "/metrics"
)

// fromHere reports whether a request comes from this machine.
func fromHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// inputEnd is closed at the end of standard input. Its goroutine may last as
// long as the process: a read of standard input cannot be interrupted.
func inputEnd() <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return end
}
