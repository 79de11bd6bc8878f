// Lockgen writes decorators that run a method or function under a distributed lock. A
// line above the method or function, the directive, asks for it:
//
//	//go:generate go tool lockgen
//
//	type Orders interface {
//		// Pay charges the customer.
//		//
//		//lockmw:lock {order.ID} prefix=order: wait=2s
//		Pay(ctx context.Context, order Order) (Receipt, error)
//	}
//
// go generate then writes a file beside it, which has a function LockOrders. Call that
// function where you assemble the program, and pass on what it returns:
//
//	var orders = LockOrders(ledger, locks) // of the type Orders
//
// Usage:
//
//	lockgen [packages]          write the decorators; without packages: that of the working folder
//	lockgen -check [packages]   report what is wrong, and write nothing; without packages: ./...
//
// With -check it reports mistakes in directives, code that is not what lockgen would
// write now, and files that no directive asks for any more. It also reports decorators
// that only tests call, and unexported methods that only their own type calls. It exits
// with 1 if it reports anything.
//
// docs/annotations.md describes the directive: keys, options and what to look out for.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/lockgen"
)

func main() {
	check := flag.Bool("check", false, "report what is wrong, and write nothing")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: lockgen [-check] [packages]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, *check, flag.Args(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code.
func run(ctx context.Context, check bool, patterns []string, out, problems io.Writer) int {
	var done lockgen.Outcome
	var err error
	for _, p := range patterns {
		if strings.HasPrefix(p, "-") {
			fmt.Fprintf(problems, "lockgen: %s stands behind a package: flags go first\n", p)
			return 2
		}
	}
	if check && len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	if check {
		done.Problems, _, err = lockgen.Check(ctx, lockgen.Request{Patterns: patterns}, true)
	} else {
		done, err = lockgen.Generate(ctx, lockgen.Request{Patterns: patterns})
	}
	for _, path := range done.Changed {
		fmt.Fprintln(out, path)
	}
	for _, p := range slices.Concat(done.Problems, done.Notes) {
		fmt.Fprintln(problems, p)
	}
	if err != nil {
		fmt.Fprintln(problems, "lockgen:", err)
	}
	if err != nil || len(done.Problems) > 0 {
		return 1
	}
	return 0
}
