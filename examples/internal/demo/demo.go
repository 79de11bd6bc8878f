// Package demo is what the examples have in common: a Redis, and a server that
// ends in good order. The locks are in the examples.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Options are an example's flags, and where it prints.
type Options struct {
	Addr string        // to listen on
	Work time.Duration // that a handler takes
	Out  io.Writer
}

// Main runs an example until Ctrl-C, and exits with 1 if that fails.
func Main(serve func(context.Context, Options) error) {
	o := Options{Out: os.Stdout}
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:8080", "`address` to listen on; port 0 is any that is free")
	flag.DurationVar(&o.Work, "work", 2*time.Second, "how `long` a handler works")
	flag.Parse()
	Run(func(ctx context.Context) error { return serve(ctx, o) })
}

// Run runs a program whose context ends with Ctrl-C. A second Ctrl-C ends it at
// once. It exits with 1 if f fails.
func Run(f func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := f(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// lastRequests is how long requests may take that are under way at the end.
const lastRequests = 15 * time.Second

// Serve answers requests until ctx ends, and then those that are under way.
func Serve(ctx context.Context, o Options, handler http.Handler) error {
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return fmt.Errorf("%w; -addr names another address", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(o.Out, "listening on http://%s; Ctrl-C ends it\n", listener.Addr())

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRequests)
	defer cancel()
	err = server.Shutdown(last)
	if err != nil {
		_ = server.Close()
		err = fmt.Errorf("requests did not end within %v: %w", lastRequests, err)
	}
	if failed := <-ended; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// Work takes its time, and stops when ctx ends: behind a lock that is when the
// lock is lost, too.
func Work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
