package beside

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var errRefused = errors.New("refused")

// unlocked is a program that takes no lock.
func unlocked(_ string, work Work) (Program, error) {
	return Program{Run: work, Refused: errRefused, Close: func(context.Context) error { return nil }}, nil
}

// mutexed returns a program that excludes itself, within this process.
func mutexed() func(string, Work) (Program, error) {
	var mu sync.Mutex
	return func(_ string, work Work) (Program, error) {
		p, err := unlocked("", func(ctx context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			return work(ctx, key)
		})
		return p, err
	}
}

func newLedger(t *testing.T) (*Ledger, *redis.Client) {
	t.Helper()
	client := redistest.Shared(t).Client(t)
	l := NewLedger(client)
	t.Cleanup(func() {
		if err := l.Erase(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l, client
}

// Two who are at work at the same time have both read the number when either writes it.
func TestTheLedgerNoticesWorkAtTheSameTime(t *testing.T) {
	l, _ := newLedger(t)
	var both sync.WaitGroup
	both.Add(2)
	l.between = func() {
		both.Done()
		both.Wait()
	}
	var workers sync.WaitGroup
	for _, name := range []string{"before", "after"} {
		workers.Go(func() {
			if err := l.Work(name)(t.Context(), l.Key(0)); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if n := l.Overlaps(); n != 1 {
		t.Errorf("Overlaps = %d, want 1", n)
	}
	if n, err := l.Lost(t.Context()); n != 1 || err != nil {
		t.Errorf("Lost = %d, %v; want 1", n, err)
	}
}

func TestWorkOnDifferentKeysDoesNotOverlap(t *testing.T) {
	l, _ := newLedger(t)
	defer l.Enter("before", l.Key(0))()
	defer l.Enter("after", l.Key(1))()
	if n := l.Overlaps(); n != 0 {
		t.Errorf("Overlaps = %d, want 0", n)
	}
}

func TestWithoutLocksARunIsNotClean(t *testing.T) {
	l, _ := newLedger(t)
	results, err := l.Run(t.Context(), Load{Keys: 1, Callers: 8, Jobs: 100}, Side{"before", unlocked}, Side{"after", unlocked})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := l.Lost(t.Context())
	if err != nil || l.Overlaps() == 0 || lost == 0 {
		t.Errorf("overlaps = %d, lost = %d, %v; want both to be noticed", l.Overlaps(), lost, err)
	}
	t.Logf("%v: %d overlaps, %d of them overwritten", results, l.Overlaps(), lost)
}

func TestARunWithALockIsClean(t *testing.T) {
	addr := redistest.Shared(t).Addr()
	var out strings.Builder
	open := mutexed()
	if err := report(t.Context(), &out, addr, []Side{{"before", open}, {"after", open}}); err != nil {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "both had it 0 times, 0 jobs were overwritten") {
		t.Errorf("report:\n%s", out.String())
	}
}

func TestTheReportFailsWhereLocksDoNotExclude(t *testing.T) {
	addr := redistest.Shared(t).Addr()
	var out strings.Builder
	if err := report(t.Context(), &out, addr, []Side{{"before", unlocked}, {"after", unlocked}}); err == nil {
		t.Errorf("no error:\n%s", out.String())
	}
}

func TestWhatIsLeftIsFound(t *testing.T) {
	l, client := newLedger(t)
	name := "lock:{" + l.Key(0) + "}"
	if err := client.Set(t.Context(), name, "token", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if left, err := l.Left(t.Context()); err != nil || len(left) != 1 || left[0] != name {
		t.Errorf("Left = %q, %v; want %q", left, err, name)
	}
	client.Del(t.Context(), name)
	if left, err := l.Settle(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("Settle = %q, %v; want nothing", left, err)
	}
}

func TestAnErrorEndsTheRun(t *testing.T) {
	l, _ := newLedger(t)
	broken := errors.New("broken")
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	_, err := l.Run(ctx, Load{Keys: 1, Callers: 2, Jobs: 1000000},
		Side{"before", unlocked},
		Side{"after", func(string, Work) (Program, error) {
			return unlocked("", func(context.Context, string) error { return broken })
		}})
	if !errors.Is(err, broken) {
		t.Errorf("Run = %v, want %v", err, broken)
	}
	_, err = l.Run(ctx, Load{Keys: 1, Callers: 1, Jobs: 1}, Side{"before", func(string, Work) (Program, error) { return Program{}, broken }})
	if !errors.Is(err, broken) {
		t.Errorf("Run of what cannot be opened = %v, want %v", err, broken)
	}
}
