// Command lockctl shows and releases the locks of package lockmw in a Redis.
//
//	lockctl ls [PREFIX]       who holds which locks, and how many wait
//	lockctl show KEY          one lock
//	lockctl watch [PREFIX]    ls again and again
//	lockctl release KEY       take a lock from its holders, who are told that it is lost
//	lockctl doctor            whether locks can work in this Redis, and what to do
//	lockctl completion SHELL  completion for bash, zsh, fish or powershell
//
// The Redis is that of --redis or REDIS_URL, as in redis://user:password@host:6379/0
// (rediss:// with TLS); with --cluster it is one node of a Cluster, with --sentinel NAME one
// of the Sentinels that watch the master of that name. A password is better in REDIS_URL
// than in arguments, which other users of the machine may see.
//
// The exit status is 0 where all is well; 1 after an error, such as a Redis that cannot be
// reached, or in which locks cannot work; 2 after wrong arguments; 3 where there is nothing
// to show or to release, or doctor has advice; 4 where a release was not confirmed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	statusError       = 1
	statusUsage       = 2
	statusNothing     = 3
	statusUnconfirmed = 4
)

// A status ends the program with a number. Its text, if there is one, goes to stderr.
type status struct {
	number int
	text   string
}

func (s status) Error() string { return s.text }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	number := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(number)
}

// run carries out a command line, and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	ended := status{statusUsage, err.Error()} // what cobra says of arguments
	errors.As(err, &ended)
	if ended.text != "" {
		for line := range strings.Lines(ended.text) { // cobra's have several
			if line = printable(strings.TrimSpace(line)); line != "" {
				fmt.Fprintf(errs, "lockctl: %s\n", line)
			}
		}
	}
	if ended.number == statusUsage {
		fmt.Fprintln(errs, "lockctl help says more")
	}
	return ended.number
}

// newRoot returns the command of which all others are.
func newRoot() *cobra.Command {
	var r remote
	root := &cobra.Command{
		Use:           "lockctl",
		Short:         "Show and release the locks of package lockmw in a Redis",
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: "Show and release the locks of package lockmw in a Redis.\n\n" +
			"The exit status is 0 where all is well; 1 after an error, such as a Redis that cannot be\n" +
			"reached or in which locks cannot work; 2 after wrong arguments; 3 where there is nothing to\n" +
			"show or to release, or doctor has advice; 4 where a release was not confirmed.",
	}
	r.flags(root.PersistentFlags())
	root.AddCommand(lsCommand(&r), showCommand(&r), watchCommand(&r), releaseCommand(&r), doctorCommand(&r))
	return root
}
