package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/besidetest"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestBothVersionsSideBySide(t *testing.T) { besidetest.Pair(t, old, ours) }

// What each library tells, under the errBusy of the programs.
func TestWhatARefusalTells(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	locks := testenv.Open(t, client)
	rs := redsync.New(goredis.NewPool(client))
	ctx, account := t.Context(), besidetest.NewLedger(t).Key(0)

	_, lease, err := locks.Acquire(ctx, account, payouts)
	if err != nil {
		t.Fatal(err)
	}
	mutex := rs.NewMutex("lock:{payout:" + account + "}")
	err = mutex.TryLockContext(ctx)
	if _, taken := errors.AsType[*redsync.ErrTaken](err); !taken {
		t.Errorf("redsync, while we hold the lock: %v, want an *ErrTaken", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}

	if err := mutex.TryLockContext(ctx); err != nil {
		t.Fatal(err)
	}
	_, _, err = locks.Acquire(ctx, account, lockmw.Policy{Prefix: payouts.Prefix})
	if refusal, ok := errors.AsType[*lockmw.AcquireError](err); !ok || !errors.Is(err, lockmw.ErrNotAcquired) || refusal.Holder != nil {
		t.Errorf("we, while redsync holds the lock: %#v; want ErrNotAcquired, and no holder: it is none of ours", err)
	}
	if ok, err := mutex.UnlockContext(ctx); !ok || err != nil {
		t.Errorf("unlock: %v, %v", ok, err)
	}
}

// Nobody extends a mutex of redsync here, as nobody did before. This is what both versions side by side
// cannot repair, and what is gone with the old one.
func TestOldWorkGoesOnWithoutItsLock(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ledger := besidetest.NewLedger(t)
	ctx, account := t.Context(), ledger.Key(0)
	mutex := redsync.New(goredis.NewPool(client)).NewMutex("lock:{payout:"+account+"}", redsync.WithExpiry(200*time.Millisecond))
	if err := mutex.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	leave := ledger.Enter("before", account) // its work takes longer than the 200 ms

	locked := make(chan error, 1)
	go func() {
		locked <- besidetest.Open(t, ours, func(context.Context, string) error {
			defer ledger.Enter("after", account)()
			return nil
		}).Run(ctx, account)
	}()
	if err := await.Receive(t, "we have the lock", locked); err != nil {
		t.Fatal(err)
	}
	leave()
	if n := ledger.Overlaps(); n != 1 {
		t.Errorf("overlaps = %d, want 1: redsync's work is still going on", n)
	}
	ok, err := mutex.UnlockContext(ctx)
	if ok || !errors.Is(err, redsync.ErrLockAlreadyExpired) {
		t.Errorf("unlock = %v, %v; want %v, which comes after the work", ok, err, redsync.ErrLockAlreadyExpired)
	}
}
