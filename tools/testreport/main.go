// Command testreport runs go test and prints what go test prints, with two
// differences: a skipped test fails the run, and at the end stands how many tests
// there were.
//
//	testreport DIR [arguments of go test]
//
// It runs in the folder DIR. With -v among the arguments everything is shown, as
// with go test.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: testreport DIR [arguments of go test]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// run returns nil if all tests have passed and none was skipped.
func run(dir string, args []string, stdout, stderr io.Writer) error {
	// An interrupt reaches go test as well; testreport stays to show what it says.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)

	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := newReport(stdout, slices.Contains(args, "-v"))
	return errors.Join(r.read(events), cmd.Wait(), r.close())
}
