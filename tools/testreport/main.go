// Command testreport runs go test and prints what go test prints, with two
// differences: a skipped test fails the run, and at the end stands how many tests
// there were.
//
//	testreport [-quick] DIR [arguments of go test]
//
// It runs in the folder DIR. With -v among the arguments everything is shown, as
// with go test. With -quick it runs go test -short and accepts that a test is
// skipped by slow.Test of the root module, and for no other reason. Without
// -quick that fails the run as well, also when -short is among the arguments: in
// the modules where make test passes it, -short means fewer repetitions, and no
// test may be left out.
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
	args := os.Args[1:]
	quick := len(args) > 0 && args[0] == "-quick"
	if quick {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: testreport [-quick] DIR [arguments of go test]")
		os.Exit(2)
	}
	if err := run(quick, args[0], args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// run returns nil if all tests have passed and none was skipped, but for the slow
// ones of a quick run.
func run(quick bool, dir string, args []string, stdout, stderr io.Writer) error {
	// An interrupt reaches go test as well; testreport stays to show what it says.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)

	command := []string{"test", "-json"}
	if quick {
		command = append(command, "-short")
	}
	cmd := exec.Command("go", append(command, args...)...)
	cmd.Dir = dir
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := newReport(stdout, slices.Contains(args, "-v"), quick)
	return errors.Join(r.read(events), cmd.Wait(), r.close())
}
