// Command lockctl shows and releases the locks of package lockmw in a Redis.
//
//	lockctl ls [PREFIX]        who holds which locks, and how many wait
//	lockctl show KEY           one lock, and who waits for it
//	lockctl watch [PREFIX]     ls again and again
//	lockctl release KEY        take a lock from its holders, who are told that it is lost
//	lockctl uncertain [PREFIX] work that was begun, and nobody knows whether it was done
//	lockctl resolve KEY ID     say what became of such work
//	lockctl policy set|ls|clear what services do while they run (lockmw.WithSettings)
//	lockctl doctor             whether locks can work in this Redis, and what to do
//	lockctl completion SHELL   completion for bash, zsh, fish or powershell
//	lockctl version            the version of this program, as --version
//
// The Redis is that of --redis or REDIS_URL, as in redis://user:password@host:6379/0 (rediss://
// with TLS). Without both it is redis://localhost:6379/0. With --cluster, the URL is that of one
// node of a Cluster. With --sentinel NAME, it is that of one of the Sentinels that watch the master
// of that name. A password is better in REDIS_URL than in arguments, which other users of the
// machine may see.
//
// With --sentinel, user and password in the URL are those of the master. Those of the Sentinels,
// and the addresses of more Sentinels, are parameters of the URL:
// redis://host:26379?sentinel_username=u&sentinel_password=p&addr=other:26379.
//
// With rediss://, --tls-ca names a file with the certificate of the authority that has signed the
// server's, if the system does not know it. --tls-cert and --tls-key name files with the certificate
// that the server wants to see, and with its key. --tls-name is the name in the server's certificate,
// if it is not the host of the URL.
//
// With -o json, each lock is one line, a JSON document of its own. So a list of any length can be
// read while it is written.
//
// The exit status is 0 where all is well; 1 after an error, such as a Redis that cannot be reached
// or in which locks cannot work; 2 after wrong arguments; 3 where there is nothing to show or to
// release, or doctor has advice; 4 where a release or a setting was not confirmed; 130 after an
// interrupt, by which watch ends with 0.
//
// There is colour only on a terminal, and none with NO_COLOR or TERM=dumb.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

func main() {
	redis.SetLogger(silent{}) // it says on stderr what lockctl says as well, or what is of no use here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	ended := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(int(ended))
}

// silent is a logger for go-redis.
type silent struct{}

// Printf implements the logger of go-redis.
func (silent) Printf(context.Context, string, ...any) {}

// run carries out a command line, and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) status {
	root := newRoot()
	root.SetArgs(append([]string{}, args...)) // nil would be the arguments of the process
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	strict(root) // after SetOut, or completions would go elsewhere
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return statusOK
	}
	end := ending{statusUsage, err.Error()} // what cobra says of arguments
	errors.As(err, &end)
	if end.text != "" {
		for line := range strings.Lines(end.text) { // cobra's have several
			if line = printable(strings.TrimSpace(line)); line != "" {
				fmt.Fprintf(errs, "lockctl: %s\n", line)
			}
		}
	}
	if end.status == statusUsage {
		fmt.Fprintf(errs, "See '%s --help'.\n", command.CommandPath())
	}
	return end.status
}

// newRoot returns the command of which all others are.
func newRoot() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:           "lockctl",
		Short:         "Show and release the locks of package lockmw in a Redis",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Long:          "Show and release the locks of package lockmw in a Redis.\n\n" + exitStatuses,
	}
	f.add(root)
	root.AddCommand(lsCommand(&f), showCommand(&f), watchCommand(&f), releaseCommand(&f), uncertainCommand(&f), resolveCommand(&f), policyCommand(&f), doctorCommand(&f), versionCommand())
	return root
}

// versionCommand returns what many try before --version.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version of this program, as --version",
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "lockctl version %s\n", version())
			return err
		},
	}
}

// strict has cobra's own commands refuse what is no command or shell. They would write their
// help to stdout and end with 0, also where it goes to the file of a completion.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if _, _, err := root.Find(args); err != nil {
					return misused("%s", err)
				}
				return nil
			}
		case "completion":
			c.RunE = func(*cobra.Command, []string) error {
				return misused("completion takes one SHELL: bash, zsh, fish or powershell")
			}
		}
	}
}

// version is that of the module that was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
