package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
	"github.com/lockmw/kit/examples/comingfrom/internal/besidetest"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// pairs are the versions that exclude each other.
var pairs = map[string][2]beside.Side{
	"one key":          {old, ours},
	"before, between":  {oldMajority, inBetween},
	"between, after":   {inBetween, oursMajority},
	"between, between": {inBetween, {Name: "another", Open: inBetween.Open}},
}

func TestVersionsThatRunTogetherExcludeEachOther(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) { besidetest.Apart(t, pair[0], pair[1]) })
	}
}

func TestEachIsRefusedWhileTheOtherIsAtWork(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) { besidetest.Refused(t, pair[0], pair[1]) })
		t.Run(name+", the other way", func(t *testing.T) { besidetest.Refused(t, pair[1], pair[0]) })
	}
}

// Without the version in between, locks of three keys do not exclude ours, nor do those with another name.
func TestVersionsThatDoNotExcludeEachOtherAreNoticed(t *testing.T) {
	t.Run("three keys", func(t *testing.T) { besidetest.Together(t, oldMajority, oursMajority) })
	t.Run("another name", func(t *testing.T) { besidetest.Together(t, old, besidetest.Renamed(ours)) })
}

// open returns a Locker of each library that uses the same keys: one key of rueidislock's, and our namespace.
func open(t *testing.T, server redistest.Backend) (rueidislock.Locker, *lockmw.Locker) {
	t.Helper()
	theirs, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}},
		KeyMajority:  1,
		TryNextAfter: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(theirs.Close)
	return theirs, testenv.Open(t, server.Client(t), lockmw.WithNamespace("rueidislock:0"))
}

// What each library tells, under the errBusy of the programs.
func TestWhatARefusalTells(t *testing.T) {
	theirs, locks := open(t, redistest.Shared(t))
	ctx, tenant := t.Context(), besidetest.NewLedger(t).Key(0)

	_, lease, err := locks.Acquire(ctx, tenant, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := theirs.TryWithContext(ctx, "{"+tenant+"}"); !errors.Is(err, rueidislock.ErrNotLocked) {
		t.Errorf("TryWithContext, while we hold the lock: %v, want %v", err, rueidislock.ErrNotLocked)
	}
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, _, err := theirs.WithContext(short, "{"+tenant+"}"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rueidislock.ErrNotLocked) {
		t.Errorf("WithContext, while we hold the lock: %v, want the context's error alone", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}

	_, release, err := theirs.TryWithContext(ctx, "{"+tenant+"}")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = locks.Acquire(ctx, tenant, lockmw.Policy{})
	if refusal, ok := errors.AsType[*lockmw.AcquireError](err); !ok || !errors.Is(err, lockmw.ErrNotAcquired) || refusal.Holder != nil {
		t.Errorf("we, while rueidislock holds the lock: %#v; want ErrNotAcquired, and no holder: it is none of ours", err)
	}
	release()
}

// A release of ours reaches who waits with rueidislock, though that never asks by itself.
func TestOurReleaseWakesTheirWaiter(t *testing.T) {
	server := redistest.Real(t) // where nobody else has keys that are tracked
	theirs, locks := open(t, server)
	client := server.Client(t)
	ctx := t.Context()
	_, lease, err := locks.Acquire(ctx, "acme", lockmw.Policy{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var released atomic.Bool
	got := make(chan error, 1)
	go func() {
		_, release, err := theirs.WithContext(ctx, "{acme}")
		if err == nil {
			if !released.Load() {
				err = errors.New("it has had the lock while it was ours")
			}
			release()
		}
		got <- err
	}()
	await.Until(t, "they have asked, and are told of changes from then on", func() bool {
		stats, err := client.Info(ctx, "stats").Result()
		return err == nil && strings.Contains(stats, "tracking_total_keys:1")
	})
	released.Store(true)
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "their waiter has the lock", got); err != nil {
		t.Error(err)
	}
}

// Both notice that somebody has removed the key under them.
func TestBothTellTheirWorkThatTheLockIsLost(t *testing.T) {
	theirs, locks := open(t, redistest.Shared(t))
	tenant := besidetest.NewLedger(t).Key(0)
	client := redistest.Shared(t).Client(t)
	key := "rueidislock:0:{" + tenant + "}"

	work, release, err := theirs.TryWithContext(t.Context(), "{"+tenant+"}")
	if err != nil {
		t.Fatal(err)
	}
	client.Del(t.Context(), key)
	await.Receive(t, "the context of rueidislock ends", work.Done())
	release()
	if err := context.Cause(work); !errors.Is(err, context.Canceled) {
		t.Errorf("rueidislock's cause = %v, want %v, as after a release", err, context.Canceled)
	}

	work, lease, err := locks.Acquire(t.Context(), tenant, lockmw.Policy{TTL: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	client.Del(t.Context(), key)
	await.Receive(t, "our context ends", work.Done())
	if err := context.Cause(work); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("our cause = %v, want %v", err, lockmw.ErrLost)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Release = %v, want %v", err, lockmw.ErrLost)
	}
}
