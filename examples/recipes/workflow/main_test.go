package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// Somebody else waits for the order from the first activity on, and has it after the last one.
func TestNobodyChangesAnOrderBetweenItsActivities(t *testing.T) {
	locks := locktest.New(t)
	h := host{locks}
	var mu sync.Mutex
	var seen []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, what)
	}
	var other sync.WaitGroup
	during := func(what string) func(context.Context, string) error {
		return func(ctx context.Context, order string) error {
			if what == "charged" {
				other.Go(func() {
					if err := locks.WithLock(context.Background(), order, perOrder, func(context.Context) error {
						note("changed")
						return nil
					}); err != nil {
						t.Error(err)
					}
				})
				locktest.AwaitWaiters(t, locks, "order:42", 1)
			}
			note(what)
			return context.Cause(ctx)
		}
	}
	err := workflow(t.Context(), "42", h.giveUp,
		func(ctx context.Context, s state) (state, error) { return h.goOn(ctx, s, during("charged")) },
		func(ctx context.Context, s state) (state, error) { return h.goOn(ctx, s, during("packed")) },
		func(ctx context.Context, s state) (state, error) { return h.end(ctx, s, during("shipped")) })
	other.Wait()
	if want := []string{"charged", "packed", "shipped", "changed"}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("%v, and seen were %v, want %v", err, seen, want)
	}
}

// An activity that fails gives the lock back, and is tried again in its turn.
func TestAnActivityThatFailsIsTriedAgain(t *testing.T) {
	locks := locktest.New(t)
	h := host{locks}
	tries := 0
	err := workflow(t.Context(), "42", h.giveUp, h.charge,
		func(ctx context.Context, s state) (state, error) {
			return h.goOn(ctx, s, func(context.Context, string) error {
				if tries++; tries < 3 {
					return errors.New("the box is too small")
				}
				return nil
			})
		}, h.ship)
	if err != nil || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
	locktest.Hold(t, locks, "order:42") // it is free
}

// Two hosts have the same activity: the engine took the first one for dead.
func TestAnActivityThatRunsTwiceRunsOneAfterTheOther(t *testing.T) {
	locks := locktest.New(t)
	h := host{locks}
	s, err := h.charge(t.Context(), state{Order: "42"})
	if err != nil {
		t.Fatal(err)
	}
	var active int // under the lock of the order
	var first sync.Once
	var twice sync.WaitGroup
	for range 2 {
		twice.Go(func() {
			_, err := h.end(context.Background(), s, func(ctx context.Context, _ string) error {
				if active++; active > 1 {
					t.Error("two at a time")
				}
				first.Do(func() { locktest.AwaitWaiters(t, locks, "order:42", 1) })
				active--
				return context.Cause(ctx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	twice.Wait()
}

// No host has begun the second activity, so its ticket is good for half a minute more: it is discarded.
func TestAWorkflowThatGivesUpLetsItsLockGo(t *testing.T) {
	locks := locktest.New(t)
	h := host{locks}
	noHost := errors.New("no host is free")
	pack := func(context.Context, state) (state, error) { return state{}, noHost }
	if err := workflow(t.Context(), "42", h.giveUp, h.charge, pack, h.ship); !errors.Is(err, noHost) {
		t.Errorf("it gives up with %v, want %v", err, noHost)
	}
	locktest.Hold(t, locks, "order:42") // it is free
	if err := workflow(t.Context(), "43", h.giveUp, pack); !errors.Is(err, noHost) || errors.Is(err, lockmw.ErrInvalidTicket) {
		t.Errorf("without a ticket it gives up with %v, want %v", err, noHost)
	}
}
