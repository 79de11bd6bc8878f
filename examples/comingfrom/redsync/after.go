package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// payouts is the lock "lock:{payout:<account>}" in Redis. WithTries(100) and a delay of 20 ms were two
// seconds.
var payouts = lockmw.Policy{Prefix: "payout:", Wait: 2 * time.Second, RetryInterval: 20 * time.Millisecond}

// after is before with lockmw.
type after struct {
	locks *lockmw.Locker
	pay   func(ctx context.Context, account string) error
}

func newAfter(client *redis.Client, pay func(ctx context.Context, account string) error) (*after, error) {
	locks, err := lockmw.New(client)
	return &after{locks: locks, pay: pay}, err
}

// PayOut pays an account out. It returns errBusy if another payout of the account takes too long.
func (a *after) PayOut(ctx context.Context, account string) error {
	err := a.locks.WithLock(ctx, account, payouts, func(ctx context.Context) error {
		return a.pay(ctx, account) // for as long as it takes: ctx ends if the lock is lost
	})
	if errors.Is(err, lockmw.ErrNotAcquired) {
		return errBusy
	}
	return err
}

// Close ends the locks. Call it last.
func (a *after) Close(ctx context.Context) error { return a.locks.Close(ctx) }
