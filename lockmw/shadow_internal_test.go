package lockmw

import (
	"context"
	"errors"
	"testing"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Forecasts have a bound of their own: beyond it a call runs as ever, what it would have come to is not known, and whoever enforces has
// his lock.
func TestForecastsBeyondTheBoundAreNotMade(t *testing.T) {
	told := make(chan Event, 10)
	l, err := New(redistest.Embedded(t).Client(t), WithObserver(func(_ context.Context, e Event) {
		if e.Kind == EventShadowIncomplete {
			told <- e
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.Background()) }()
	l.shadows.mu.Lock()
	l.shadows.n = mostShadows
	l.shadows.mu.Unlock()
	_, lease, err := l.Acquire(context.Background(), "k", Policy{Shadow: true})
	if err != nil || !lease.Valid() || lease.Release(context.Background()) != nil {
		t.Fatalf("a call beyond the bound: %v, %v", lease, err)
	}
	if e := await.Receive(t, "that a forecast is incomplete", told); !errors.Is(e.Err, errShadows) || e.Key != "k" {
		t.Errorf("told %+v", e)
	}
	_, lease, err = l.Acquire(context.Background(), "k", Policy{})
	if err != nil || lease.Release(context.Background()) != nil {
		t.Errorf("a call that enforces: %v", err)
	}
	if l.shadows.locker != nil || l.shadows.n != mostShadows {
		t.Error("a forecast was begun")
	}
}
