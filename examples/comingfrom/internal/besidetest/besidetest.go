// Package besidetest has the tests that are the same for all programs that run beside another one.
package besidetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// load has a lock wanted by six or nine goroutines, of which most have to wait.
var load = beside.Load{Keys: 2, Callers: 3, Jobs: 50}

// NewLedger returns a ledger in the server of this test process, and erases it when the test ends.
func NewLedger(t *testing.T) *beside.Ledger {
	t.Helper()
	ledger := beside.NewLedger(redistest.Shared(t).Client(t))
	t.Cleanup(func() {
		if err := ledger.Erase(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return ledger
}

// Open opens a side, and closes it when the test ends.
func Open(t *testing.T, side beside.Side, work beside.Work) beside.Program {
	t.Helper()
	program, err := side.Open(redistest.Shared(t).Addr(), work)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience) // also where a test has failed at work
		defer cancel()
		if err := program.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return program
}

// Pair checks that two versions of a program exclude each other, and that each is refused while the other is at work. With another name both are
// at work at the same time: without that, the first of these tests could not fail.
func Pair(t *testing.T, old, ours beside.Side) {
	t.Helper()
	t.Run("they exclude each other", func(t *testing.T) { Apart(t, old, ours) })
	t.Run("the old one is refused", func(t *testing.T) { Refused(t, ours, old) })
	t.Run("ours is refused", func(t *testing.T) { Refused(t, old, ours) })
	t.Run("another name is noticed", func(t *testing.T) { Together(t, old, Renamed(ours)) })
}

// Apart checks that the sides exclude each other: several goroutines of each want the same locks, and never
// are two of them at work under one. Each has its share, nothing that was done is overwritten, and nothing
// is left in Redis.
func Apart(t *testing.T, sides ...beside.Side) {
	t.Helper()
	ledger := NewLedger(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	results, err := ledger.Run(ctx, load, sides...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		t.Logf("%s: %d jobs, %d refused", r.Name, r.Jobs, r.Refused)
		if r.Jobs < load.Jobs {
			t.Errorf("%s has done %d jobs, want %d", r.Name, r.Jobs, load.Jobs)
		}
	}
	t.Logf("a lock went from one to the other %d times", ledger.Turns())
	if n := ledger.Overlaps(); n != 0 {
		t.Errorf("two had a lock at the same time %d times, want never", n)
	}
	if n, err := ledger.Lost(ctx); n != 0 || err != nil {
		t.Errorf("%d jobs were overwritten, %v; want none", n, err)
	}
	if ledger.Turns() == 0 {
		t.Error("no lock went from one to the other: they were not at work side by side")
	}
	if left, err := ledger.Settle(ctx); len(left) != 0 || err != nil {
		t.Errorf("left in Redis is %q, %v; want nothing", left, err)
	}
}

// Refused checks that a side is told that others have the lock while the other side is at work under it, and that
// it gets the lock afterwards. It runs beside other tests, as most programs wait for two seconds.
func Refused(t *testing.T, holder, other beside.Side) {
	t.Helper()
	t.Parallel()
	ledger := NewLedger(t)
	atWork, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	holding := Open(t, holder, func(context.Context, string) error {
		close(atWork)
		<-goOn
		return nil
	})
	worked := 0
	asking := Open(t, other, func(context.Context, string) error {
		worked++
		return nil
	})
	key := ledger.Key(0)
	go func() { done <- holding.Run(context.Background(), key) }()
	await.Receive(t, holder.Name+" is at work", atWork)

	err := asking.Run(t.Context(), key)
	if !errors.Is(err, asking.Refused) || worked != 0 {
		t.Errorf("%s, while %s is at work: %v, and it worked %d times; want to be refused", other.Name, holder.Name, err, worked)
	}
	close(goOn)
	if err := await.Receive(t, holder.Name+" is done", done); err != nil {
		t.Errorf("%s: %v", holder.Name, err)
	}
	if err := asking.Run(t.Context(), key); err != nil || worked != 1 {
		t.Errorf("%s, when %s is done: %v, and it worked %d times; want once", other.Name, holder.Name, err, worked)
	}
}

// Together checks that two sides do not exclude each other, and that the ledger notices: both are at work
// before either goes on. It is for names that are not the same, and shows that Apart could fail.
func Together(t *testing.T, sides ...beside.Side) {
	t.Helper()
	ledger := NewLedger(t)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	key := ledger.Key(0)
	meeting := make([]chan struct{}, len(sides))
	for i := range meeting {
		meeting[i] = make(chan struct{})
	}
	done := make(chan error, len(sides))
	for i, side := range sides {
		program := Open(t, side, func(ctx context.Context, _ string) error {
			defer ledger.Enter(side.Name, key)()
			close(meeting[i])
			for _, other := range meeting {
				select {
				case <-other:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
		go func() { done <- program.Run(ctx, key) }()
	}
	for range sides {
		if err := await.Receive(t, "both are at work", done); err != nil {
			t.Errorf("%v; want both to be at work at the same time", err)
		}
	}
	if n := ledger.Overlaps(); n != len(sides)-1 {
		t.Errorf("the ledger has noticed %d overlaps, want %d", n, len(sides)-1)
	}
}

// Renamed returns a side that locks other names than it did.
func Renamed(side beside.Side) beside.Side {
	open := side.Open
	side.Open = func(addr string, work beside.Work) (beside.Program, error) {
		program, err := open(addr, work)
		run := program.Run
		program.Run = func(ctx context.Context, key string) error { return run(ctx, "other-"+key) }
		return program, err
	}
	return side
}
