package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/kit/locktest"
)

func TestEachPlannedRunIsMadeOnce(t *testing.T) {
	locks := locktest.New(t)
	runs := make(chan time.Time, 100)
	for range 3 { // as three processes
		c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
		err := schedule(t.Context(), c, "* * * * * *", locks, func(_ context.Context, planned time.Time) error {
			runs <- planned
			return errors.New("a failed run is not made again, either")
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Start()
		defer func() { <-c.Stop().Done() }()
	}
	seen := make(map[time.Time]bool)
	for len(seen) < 4 {
		planned := <-runs
		if seen[planned] {
			t.Fatalf("%v: a second run", planned)
		}
		if !planned.Equal(planned.Truncate(time.Second)) || time.Since(planned) > time.Minute {
			t.Fatalf("%v is no time for which a run was planned", planned)
		}
		seen[planned] = true
	}
}
