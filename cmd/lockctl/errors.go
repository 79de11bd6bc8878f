package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/lockmw"
)

// The exit statuses.
const (
	statusError       = 1
	statusUsage       = 2
	statusNothing     = 3
	statusUnconfirmed = 4
	statusInterrupted = 130 // what a shell says of a program that SIGINT has ended
)

// A status ends the program with a number. Its text, if there is one, goes to stderr.
type status struct {
	number int
	text   string
}

func (s status) Error() string { return s.text }

// misused is the status after arguments that are wrong.
func misused(format string, args ...any) error {
	return status{statusUsage, fmt.Sprintf(format, args...)}
}

// failed is the status after an error of the library or of the output.
func failed(err error) error {
	switch {
	case errors.Is(err, lockmw.ErrInvalidKey):
		return status{statusUsage, said(err)}
	case errors.Is(err, context.Canceled):
		return status{number: statusInterrupted}
	}
	return status{statusError, said(err)}
}

// inFlags has the library's words for those of the command line.
var inFlags = strings.NewReplacer("lockmw: ", "", "use redis.NewClient", "leave out --cluster",
	"redis.NewClusterClient", "--cluster", "redis.NewFailoverClient", "--sentinel NAME")

// said is what a person is told of an error: its cause, without the names of the library's
// functions, and what to do if it has not said so itself.
func said(err error) string {
	text := err.Error()
	if errors.Is(err, lockmw.ErrUnavailable) {
		if _, cause, ok := strings.Cut(text, lockmw.ErrUnavailable.Error()+": "); ok {
			text = cause
		}
	}
	text = inFlags.Replace(text)
	var unknown *net.DNSError
	var slow interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return text + ": nobody listens there; is Redis running, and is --redis or REDIS_URL right?"
	case errors.As(err, &unknown):
		return text + ": nobody knows that host; is --redis or REDIS_URL right?"
	case errors.As(err, &slow) && slow.Timeout():
		return text + ": there is no answer; is the address right, and does a firewall let the connection through?"
	}
	return text
}

// arguments checks how many arguments a command was given, and says what they are.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return misused("%s takes %s; given were %d", c.Name(), what, n)
		}
		return nil
	}
}
