package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/locktest"
)

func TestASlotIsRunOnce(t *testing.T) {
	locks := locktest.New(t)
	ctx := t.Context()
	slot := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	failing := func(context.Context, time.Time) error { return errors.New("no paper") }
	if ran, err := runOnce(ctx, locks, slot, failing); !ran || err == nil {
		t.Fatalf("the first: %v, %v", ran, err)
	}
	if ran, err := runOnce(ctx, locks, slot, failing); ran || err != nil {
		t.Errorf("the second: %v, %v; want no run, also after a failed one", ran, err)
	}
	if ran, err := runOnce(ctx, locks, slot.Add(every), cleanup); !ran || err != nil {
		t.Errorf("the next slot: %v, %v", ran, err)
	}
}

func TestRunsOfTwoSlotsDoNotOverlap(t *testing.T) {
	locks := locktest.New(t)
	slot := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	ran, err := runOnce(t.Context(), locks, slot, func(ctx context.Context, _ time.Time) error {
		ran, err := runOnce(context.WithoutCancel(t.Context()), locks, slot.Add(every), cleanup)
		if ran || err != nil {
			t.Errorf("beside a run: %v, %v; want no run", ran, err)
		}
		return ctx.Err()
	})
	if !ran || err != nil {
		t.Errorf("%v, %v", ran, err)
	}
}

func TestTheLoopRunsEachSlot(t *testing.T) {
	locks := locktest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	slots, ended := make(chan time.Time, 100), make(chan struct{}, 2)
	for range 2 { // as two processes
		go func() {
			loop(ctx, locks, func(_ context.Context, slot time.Time) error {
				slots <- slot
				return nil
			})
			ended <- struct{}{}
		}()
	}
	seen := make(map[time.Time]bool)
	for range 3 {
		slot := <-slots
		if seen[slot] || !slot.Equal(slot.Truncate(every)) {
			t.Errorf("a run for %v; it is the second: %v", slot, seen[slot])
		}
		seen[slot] = true
	}
	stop()
	<-ended
	<-ended
}

func TestTheSlotIsTheOneThatWasWaitedForOrALaterOne(t *testing.T) {
	next := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		now, want time.Time
	}{
		"in time":                          {next.Add(time.Millisecond), next},
		"it was stopped":                   {next.Add(3*every + time.Millisecond), next.Add(3 * every)},
		"its clock was set back meanwhile": {next.Add(-time.Millisecond), next},
	} {
		if got := due(next, tc.now); !got.Equal(tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
