// Command testreport runs go test and prints what go test prints, with these
// differences: a skipped test fails the run, and so does a run without any test. At the end
// stands what failed, what took longest, and how many tests there were.
//
//	testreport [-quick] [-each] [-alone n] [-beside n] DIR [arguments of go test] [-- DIR [arguments of go test]]...
//
// It runs in the folder DIR, and in those behind each --, in their order: one at a time, or n
// with -beside, but for the first ones, as many as -alone says, which have no other beside
// them. What they print stands in that order, too: the first that has not ended is shown as it
// goes on, and those beside it after it. Where one fails, the others run all the same.
//
// With -each, every package must have run a test. A -run that names a test which has another name by now
// matches nothing, and go test passes all the same. Without -each, only a run in which no package has run
// a test fails, since a -run may be meant for some of many packages.
//
// With -v among the arguments everything is shown, as with go test. With -quick it runs go test -short and accepts that a test is
// skipped by slow.Test of the root module, and for no other reason. Without
// -quick that fails the run as well, also when -short is among the arguments: in
// the modules where make test passes it, -short means fewer repetitions, and no
// test may be left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	flags := flag.NewFlagSet("testreport", flag.ExitOnError)
	quick := flags.Bool("quick", false, "run go test -short, and accept that slow tests are left out")
	each := flags.Bool("each", false, "fail where a package has run no test")
	beside := flags.Int("beside", 1, "how many folders are tested at a time")
	alone := flags.Int("alone", 0, "how many of the first folders are tested with no other beside them")
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: testreport [-quick] [-each] [-alone n] [-beside n] DIR [arguments of go test] [-- DIR [arguments of go test]]...")
	}
	_ = flags.Parse(os.Args[1:]) // it exits
	runs := split(flags.Args())
	if len(runs) == 0 || *beside < 1 {
		flags.Usage()
		os.Exit(2)
	}
	// An interrupt reaches go test as well; testreport stays to show what it says, and begins no other.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runAll(ctx, options{*quick, *each, *alone, *beside}, runs, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	quick         bool // slow tests may be left out
	each          bool // each package must have run a test
	alone, beside int  // of how many runs there are at a time: see inTurn
}

// A testRun is one go test.
type testRun struct {
	dir  string
	args []string
}

// split returns what stands between each two "--".
func split(args []string) (runs []testRun) {
	for len(args) > 0 {
		one := args
		if end := slices.Index(args, "--"); end >= 0 {
			one, args = args[:end], args[end+1:]
		} else {
			args = nil
		}
		if len(one) > 0 {
			runs = append(runs, testRun{dir: one[0], args: one[1:]})
		}
	}
	return runs
}

// runAll returns nil if all tests of all runs have passed, there were any, and none was skipped, but for
// the slow ones of a quick run.
func runAll(ctx context.Context, o options, runs []testRun, out io.Writer) error {
	places := inOrder(out, len(runs))
	reports, errs := make([]*report, len(runs)), make([]error, len(runs))
	for i, one := range runs {
		reports[i] = newReport(places[i], slices.Contains(one.args, "-v"), o.quick)
	}
	inTurn(len(runs), o.alone, o.beside, func(i int) {
		defer places[i].end()
		if errs[i] = ctx.Err(); errs[i] != nil {
			return
		}
		if len(runs) > 1 {
			fmt.Fprintf(places[i], "in %s: go test %s\n", runs[i].dir, strings.Join(runs[i].args, " "))
		}
		errs[i] = reports[i].of(runs[i])
		if errs[i] != nil && len(runs) > 1 {
			errs[i] = fmt.Errorf("in %s: %w", runs[i].dir, errs[i])
		}
	})
	return errors.Join(errors.Join(errs...), closing(out, o, reports))
}

// of runs a go test and reports it.
func (r *report) of(one testRun) error {
	command := []string{"test", "-json"}
	if r.quick {
		command = append(command, "-short")
	}
	cmd := exec.Command("go", append(command, one.args...)...)
	cmd.Dir = one.dir
	cmd.Stderr = r.out
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(r.read(events), cmd.Wait())
}
