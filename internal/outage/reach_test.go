package outage

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestReachByState(t *testing.T) {
	names := []string{Reachable: "reachable", Suspected: "suspected", Away: "away"}
	signs := []string{answered: "answered", certainlyAway: "gone", silent: "silent", lasting: "lasting"}
	began, at := time.Unix(1, 0), time.Unix(2, 0)
	old, fresh := errors.New("old"), errors.New("fresh")
	for from, row := range map[Reach][]Reach{
		Reachable: {answered: Reachable, certainlyAway: Suspected, silent: Suspected, lasting: Reachable},
		Suspected: {answered: Reachable, certainlyAway: Suspected, silent: Suspected, lasting: Away},
		Away:      {answered: Reachable, certainlyAway: Away, silent: Away, lasting: Away},
	} {
		for s, to := range row {
			t.Run(names[from]+" "+signs[s], func(t *testing.T) {
				c := condition{reach: from}
				if from != Reachable {
					c.since, c.cause = began, old
				}
				want := condition{reach: to}
				switch {
				case to == Reachable:
				case from == Reachable:
					want.since, want.cause = at, fresh
				case event(s) == certainlyAway:
					want.since, want.cause = began, fresh
				default:
					want.since, want.cause = began, old
				}
				if changed := c.on(event(s), at, fresh); c != want || changed != (from != to) {
					t.Errorf("%+v, changed %t; want %+v", c, changed, want)
				}
			})
		}
	}
}

func TestAnOutageSaysSinceWhen(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	err := Prospect{Since: since, Age: 1500 * time.Millisecond, Cause: refused}.Err()
	if got := err.Error(); !strings.Contains(got, "since 2026-01-02T03:04:05Z (for 1.5s): connection refused") || !errors.Is(err, refused) {
		t.Errorf("err = %v", got)
	}
}
