package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// reports is the lock "job-lock:default:{report:<day>}" in Redis, with the namespace below. MaxHold and MinHold are
// lockAtMostFor and lockAtLeastFor. The TTL of 30 s is for crashes: leases are renewed.
var reports = lockmw.Policy{Prefix: "report:", MaxHold: 10 * time.Minute, MinHold: time.Minute, MinHoldOnError: true}

// after is before with lockmw.
type after struct {
	locks  *lockmw.Locker
	policy lockmw.Policy
	write  func(ctx context.Context, day string) error
}

func newAfter(client *redis.Client, write func(ctx context.Context, day string) error) (*after, error) {
	locks, err := lockmw.New(client, lockmw.WithNamespace("job-lock:default"))
	return &after{locks: locks, policy: reports, write: write}, err
}

// Report writes the report of a day, unless another process does or has just done it.
func (a *after) Report(ctx context.Context, day string) (written bool, err error) {
	return a.locks.Once(ctx, day, a.policy, func(ctx context.Context) error {
		return a.write(ctx, day) // ctx ends after ten minutes, or when the lock is lost
	})
}

// Close ends the locks. Call it last.
func (a *after) Close(ctx context.Context) error { return a.locks.Close(ctx) }
