package lockmw

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestElapsedTimeIsTheClocksMaximum(t *testing.T) {
	start := now()
	for _, tc := range []struct {
		name       string
		mono, wall time.Duration
		want       time.Duration
	}{
		{"both go on", time.Second, time.Second, time.Second},
		{"the machine was suspended: only the wall clock went on", 0, time.Hour, time.Hour},
		{"the wall clock was set back", time.Second, -time.Hour, time.Second},
	} {
		later := instant{mono: start.mono + int64(tc.mono), wall: start.wall + int64(tc.wall)}
		if got := later.since(start); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestGrantIsTrustedForLessThanItsTTL(t *testing.T) {
	for _, tc := range []struct{ ttl, want time.Duration }{
		{100 * time.Millisecond, 47 * time.Millisecond}, // less 1 ms + 2 ms drift, less 50 ms guard
		{30 * time.Second, 26698 * time.Millisecond},    // less 302 ms, less 3 s
	} {
		start := now()
		if got := (promise{start, tc.ttl}).left(start); got != tc.want {
			t.Errorf("TTL %v: trusted for %v, want %v", tc.ttl, got, tc.want)
		}
	}
}

func TestSuspendedMachineLosesTheLease(t *testing.T) {
	l := leaseFor(t, Policy{TTL: time.Minute})
	l.mu.Lock()
	l.tenure().promise.since.wall -= int64(2 * time.Minute) // the wall clock went on, the timers did not
	l.mu.Unlock()
	if l.Valid() {
		t.Error("Valid after the machine was suspended for two TTLs")
	}
	if err := l.Context().Err(); err == nil {
		t.Error("the context goes on")
	}
}

// The wall clock is set forward while work is under way. Its lease ends, and work is given the usual time to stop: the lock is not taken from it at once.
func TestAStepOfTheWallClockDoesNotFreeTheLock(t *testing.T) {
	for name, p := range map[string]Policy{"renewed": {TTL: 3 * time.Second}, "behind its MaxHold": {TTL: 3 * time.Second, MaxHold: 850 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Minute) })
				s := redistest.InMemory(t)
				l, err := New(s.Client(t))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Close(t.Context()) }()
				_, lease, err := l.Acquire(t.Context(), "k", p)
				if err != nil {
					t.Fatal(err)
				}
				te, began := lease.tenure(), time.Now()
				time.Sleep(800 * time.Millisecond)
				te.mu.Lock()
				te.promise.since.wall -= int64(2 * time.Minute)
				te.mu.Unlock()
				if p.MaxHold == 0 {
					lease.Valid()
				}
				<-lease.Context().Done()
				time.Sleep(time.Until(began.Add(2900 * time.Millisecond)))
				if !s.Exists("lock:{k}") {
					t.Error("the lock was free while its work might stop")
				}
				time.Sleep(200 * time.Millisecond)
				if s.Exists("lock:{k}") {
					t.Error("Redis has the lock still")
				}
			})
		})
	}
}

// The time that a release has may be over before it begins, where the machine stands still. It is tried all the same: only Close leaves locks to their TTL.
func TestAReleaseWhoseTimeIsOverIsTriedAllTheSame(t *testing.T) {
	lease := leaseFor(t, Policy{TTL: time.Minute})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lease.releaseWithin(over); err != nil && !errors.Is(err, ErrUnavailable) { // on a slow machine Redis's reply comes too late
		t.Error(err)
	}
	await.Within(t, 20*time.Second, "the lock is free", func() bool {
		info, err := lease.locker.Inspect(t.Context(), "k")
		return err == nil && len(info.Holders) == 0
	})
}

// A lease whose time is over here, and not in Redis, as behind a renewal whose reply was lost, is not left to its TTL by Close.
func TestCloseSeesToALeaseThatOnlyRedisHas(t *testing.T) {
	lease := leaseFor(t, Policy{TTL: time.Minute})
	te := lease.tenure()
	te.mu.Lock()
	te.promise.since.wall -= int64(2 * time.Minute)
	te.mu.Unlock()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := te.abandon(over, lease); !errors.Is(err, ErrLost) {
		t.Errorf("err = %v, want ErrLost", err)
	}
	await.Within(t, 20*time.Second, "the lock is free", func() bool {
		info, err := lease.locker.Inspect(t.Context(), "k")
		return err == nil && len(info.Holders) == 0
	})
}

// While Redis gives no answer, as for a moment after a machine was suspended, nobody but the clocks can say that
// the lock may be another's: the work is told, also if it never asks Valid.
func TestSuspendedMachineLosesTheLeaseWithoutRedis(t *testing.T) {
	l := leaseFor(t, Policy{TTL: time.Minute})
	te := l.tenure()
	unanswered := store.Renewal{Err: &store.Error{Err: errors.New("no answer")}}
	if pause := te.Renewed(time.Now(), unanswered); pause == 0 || l.Context().Err() != nil {
		t.Errorf("pause %v, context %v; want another attempt, and that it goes on", pause, l.Context().Err())
	}
	te.mu.Lock()
	te.promise.since.wall -= int64(2 * time.Minute)
	te.mu.Unlock()
	if pause := te.Renewed(time.Now(), unanswered); pause != 0 {
		t.Errorf("the next attempt is after %v, want none", pause)
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, ErrLost) {
		t.Errorf("the context ended with %v, want %v", cause, ErrLost)
	}
}

// The machine is suspended while a call of Do notes that its work begins: the lock may be another's when it goes on. The work does not begin,
// and is not noted any more.
func TestNoWorkBeginsUnderALockThatIsOver(t *testing.T) {
	lease := leaseFor(t, Policy{TTL: time.Minute})
	c := newCall(context.Background(), lease.locker, "k", Flight{Policy: Policy{TTL: time.Minute}, Retain: time.Hour, Crash: Uncertain})
	if leads, err := c.join(); !leads || err != nil {
		t.Fatalf("join = %v, %v", leads, err)
	}
	lease.mu.Lock()
	lease.tenure().promise.since.wall -= int64(2 * time.Minute)
	lease.mu.Unlock()
	if _, _, err := c.look(lease); !errors.Is(err, ErrUnavailable) {
		t.Errorf("look = %v, want that the lock was lost before", err)
	}
	if err := lease.Release(context.Background()); !errors.Is(err, ErrLost) {
		t.Errorf("Release = %v, want ErrLost", err)
	}
	if info, err := lease.locker.Inspect(context.Background(), "k"); err != nil || info.Answer != nil {
		t.Errorf("Redis has %+v, %v, want nothing of the work", info.Answer, err)
	}
}

func TestAnEndComesOnTheClockThatIsAhead(t *testing.T) {
	e := endIn(time.Now(), time.Minute)
	for _, tc := range []struct {
		name       string
		mono, wall time.Duration
		want       bool
	}{
		{"just before it", 59 * time.Second, 59 * time.Second, false},
		{"behind it", time.Minute, time.Minute, true},
		{"the machine was suspended: only the wall clock went on", time.Second, time.Minute, true},
		{"the wall clock was set back", time.Minute, -time.Hour, true},
	} {
		now := instant{mono: e.from.mono + int64(tc.mono), wall: e.from.wall + int64(tc.wall)}
		if got := e.isOver(now); got != tc.want {
			t.Errorf("%s: over %v, want %v", tc.name, got, tc.want)
		}
		if (end{}).isOver(now) {
			t.Errorf("%s: what has no end is over", tc.name)
		}
	}
}

// What lets work run without its lock ends with the next call, and everything when the file is looked at next: the timer stood still.
func TestSettingsEndWhereTheMachineWasSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "settings.json")
		text := `{"*/off*": {"off": true, "until": "2000-01-01T01:00:00Z"}, "*/mail": {"wait": "3s", "for": "1h"}}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := New(redistest.InMemory(t).Client(t), WithSettings(SettingsFile(file)), AllowOff(), WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(context.Background()) }()
		off := func(name string) bool { return l.adjust(&Policy{Name: name}, forAcquire) }
		if !off("off1") {
			t.Fatal("it is not off")
		}
		synctest.Wait() // the timer is set
		l.settings.mu.Lock()
		for _, live := range l.settings.table.Load().lives {
			live.ends.from.wall -= int64(2 * time.Hour) // the wall clock went on, the timers did not
		}
		l.settings.mu.Unlock()
		if off("off2") {
			t.Error("behind its end it is off")
		}
		time.Sleep(fileEvery + time.Millisecond)
		synctest.Wait()
		if lives := l.settings.table.Load().lives; len(lives) != 0 || off("off1") {
			t.Errorf("%d settings apply behind their end", len(lives))
		}
	})
}
