// Command lockvet finds mistakes in the use of locks: work that goes on when its lock is lost, locks that are not released, middlewares in
// the wrong place, and policies that are refused when the program runs.
//
//	go install github.com/lockmw/kit/cmd/lockvet@latest
//	lockvet ./...
//
// It takes the arguments of go vet: lockvet -lockctx=false ./... leaves out a rule. lockvet help lists the rules. A build that calls go vet
// anyway can use
//
//	go vet -vettool=$(which lockvet) ./...
//
// and golangci-lint can use package plugin. Tests are not checked, because they make mistakes on purpose, and neither are generated files.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

func main() {
	args := os.Args[1:]
	if asksForPackages(args) {
		os.Exit(vet(args))
	}
	if len(args) == 1 && slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
		os.Args[1] = "help"
	}
	unitchecker.Main(rules.All...) // called by go vet, or for help
}

// asksForPackages reports whether somebody has called the program, and not go vet: that passes a file, or asks for the version and the flags.
func asksForPackages(args []string) bool {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) || strings.HasSuffix(args[len(args)-1], ".cfg") {
		return false
	}
	for _, arg := range args {
		if arg == "-flags" || strings.HasPrefix(arg, "-V") {
			return false
		}
	}
	return true
}

// vet has go vet run this program, and returns its exit code.
func vet(args []string) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockvet:", err)
		return 1
	}
	command := exec.CommandContext(context.Background(), "go", append([]string{"vet", "-vettool=" + self}, args...)...) //nolint:gosec // they are those of who calls
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockvet:", err)
		return 1
	}
	return 0
}
