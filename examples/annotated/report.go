package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Report is what every instance of the service calls at the same time of the day. One
// of them gets the lock, and min_hold keeps it from those whose clocks are late; they
// get lockmw.ErrNotAcquired.
//
//lockmw:lock {method} min_hold=30s max_hold=10m
func Report(ctx context.Context, out io.Writer) error {
	_, err := fmt.Fprintln(out, "the report is written")
	return errors.Join(err, ctx.Err())
}
