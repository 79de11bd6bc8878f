package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// before pays accounts out, one payout of an account at a time, under a lock of redsync.
type before struct {
	locks *redsync.Redsync
	pay   func(ctx context.Context, account string) error
}

func newBefore(client *redis.Client, pay func(ctx context.Context, account string) error) *before {
	return &before{locks: redsync.New(goredis.NewPool(client)), pay: pay}
}

// PayOut pays an account out. It returns errBusy if another payout of the account takes too long.
func (b *before) PayOut(ctx context.Context, account string) error {
	// The name is all that has to change while both versions run: it was "payout:" + account.
	mutex := b.locks.NewMutex("lock:{payout:"+account+"}", redsync.WithExpiry(10*time.Second),
		redsync.WithTries(100), redsync.WithRetryDelay(20*time.Millisecond))
	if err := mutex.LockContext(ctx); err != nil {
		if _, taken := errors.AsType[*redsync.ErrTaken](err); taken || errors.Is(err, redsync.ErrFailed) {
			return errBusy
		}
		return fmt.Errorf("lock account %s: %w", account, err)
	}
	defer func() {
		// Without a new context, the lock would stay for ten seconds if ctx has ended.
		if ok, err := mutex.UnlockContext(context.WithoutCancel(ctx)); !ok || err != nil {
			log.Printf("payout of %s: the lock was lost, somebody else may have paid: %v", account, err)
		}
	}()
	return b.pay(ctx, account) // for ten seconds at most, or it goes on without its lock
}
