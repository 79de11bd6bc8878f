package skew

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestClockOfAServerIsMoved(t *testing.T) {
	clock, option := New(t)
	c := redistest.Real(t, option).Client(t)
	ctx := context.Background()
	off := func() time.Duration {
		now, err := c.Time(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(now)
	}
	if d := off(); d.Abs() > 10*time.Second {
		t.Errorf("the clock is off by %v before it was moved", d)
	}
	c.Set(ctx, "k", "v", 30*time.Second)
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		if err := clock.Set(d); err != nil {
			t.Fatal(err)
		}
		if got := off(); (got - d).Abs() > 10*time.Second {
			t.Errorf("the clock is off by %v, want %v", got, d)
		}
		if n := c.Exists(ctx, "k").Val(); n != 0 {
			t.Error("a key lives longer than the server's clock allows")
		}
	}
}
