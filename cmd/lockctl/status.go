package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmw/kit/lockmw"
)

// A status is the exit status of the program.
type status int

// The exit statuses, which exitStatuses explains to users.
const (
	statusOK          status = 0
	statusError       status = 1
	statusUsage       status = 2
	statusNothing     status = 3
	statusUnconfirmed status = 4
	statusInterrupted status = 130 // what a shell says of a program that SIGINT has ended
)

// exitStatuses is a part of the help. The package comment says the same.
const exitStatuses = "The exit status is 0 where all is well; 1 after an error, such as a Redis that cannot be\n" +
	"reached or in which locks cannot work; 2 after wrong arguments; 3 where there is nothing to\n" +
	"show or to release, or doctor has advice; 4 where a release or a setting was not confirmed; 130\n" +
	"after an interrupt, by which watch ends with 0."

// An ending is the error by which a command ends the program. Its text, if there is one, goes to stderr.
type ending struct {
	status status
	text   string
}

func (e ending) Error() string { return e.text }

// misused is the end after arguments that are wrong.
func misused(format string, args ...any) error {
	return ending{statusUsage, fmt.Sprintf(format, args...)}
}

// failed is the end after an error of the library or of the output.
func failed(err error) error {
	switch {
	case errors.Is(err, lockmw.ErrInvalidKey):
		return ending{statusUsage, said(err)}
	case errors.Is(err, context.Canceled):
		return ending{status: statusInterrupted}
	}
	return ending{statusError, said(err)}
}
