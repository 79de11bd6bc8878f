package main

import (
	"errors"
	"testing"

	"github.com/bsm/redislock"

	"github.com/lockmw/kit/examples/comingfrom/internal/besidetest"
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
	theirs := redislock.New(client)
	ctx, shop := t.Context(), besidetest.NewLedger(t).Key(0)

	_, lease, err := locks.Acquire(ctx, shop, imports)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Obtain(ctx, "lock:{import:"+shop+"}", ttl, nil); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("redislock, while we hold the lock: %v, want %v", err, redislock.ErrNotObtained)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}

	lock, err := theirs.Obtain(ctx, "lock:{import:"+shop+"}", ttl, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = locks.Acquire(ctx, shop, imports)
	if refusal, ok := errors.AsType[*lockmw.AcquireError](err); !ok || !errors.Is(err, lockmw.ErrNotAcquired) || refusal.Holder != nil {
		t.Errorf("we, while redislock holds the lock: %#v; want ErrNotAcquired, and no holder: it is none of ours", err)
	}
	if err := lock.Release(ctx); err != nil {
		t.Error(err)
	}
}
