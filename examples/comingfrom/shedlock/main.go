// Command shedlock writes reports with locks as ShedLock takes them (before.go), and beside that with lockmw
// (after.go). Without lockAtLeastFor and MinHold, so that each report is written again and again.
package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
)

// errSkipped stands for a report that was not written, because others have the lock.
var errSkipped = errors.New("another process writes this report")

var (
	old = beside.Side{Name: "before", Open: beside.On(func(client *redis.Client, write beside.Work) (*before, error) {
		program := newBefore(client, write)
		program.atLeast = 0
		return program, nil
	}, func(program *before, ctx context.Context, day string) error { return skipped(program.Report(ctx, day)) }, errSkipped)}
	ours = beside.Side{Name: "after", Open: beside.On(func(client *redis.Client, write beside.Work) (*after, error) {
		program, err := newAfter(client, write)
		program.policy.MinHold, program.policy.MinHoldOnError = 0, false
		return program, err
	}, func(program *after, ctx context.Context, day string) error { return skipped(program.Report(ctx, day)) }, errSkipped)}
)

func main() { beside.Main(old, ours) }

// skipped returns errSkipped for a report that was skipped.
func skipped(written bool, err error) error {
	if err == nil && !written {
		return errSkipped
	}
	return err
}
