package lockmw

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestHoldsAreAveragedByName(t *testing.T) {
	type add struct {
		name   string
		fence  int64
		length time.Duration
	}
	many := func(n int, length time.Duration) (all []add) {
		for i := range n {
			all = append(all, add{"pay", int64(i + 1), length})
		}
		return all
	}
	for _, tc := range []struct {
		name string
		adds []add
		but  int64
		want time.Duration // 0: not known
	}{
		{"nothing", nil, 0, 0},
		{"another name", []add{{"cancel", 1, time.Hour}}, 0, 0},
		{"the mean", []add{{"pay", 1, time.Second}, {"pay", 2, 2 * time.Second}}, 0, 1500 * time.Millisecond},
		{"the one that is not over", []add{{"pay", 1, time.Second}, {"pay", 2, time.Minute}}, 2, time.Second},
		{"only the one that is not over", []add{{"pay", 2, time.Minute}}, 2, 0},
		{"one that is seen again", []add{{"pay", 1, time.Second}, {"pay", 1, 3 * time.Second}, {"pay", 1, 2 * time.Second}}, 0, 3 * time.Second},
		{"without fences", []add{{"pay", 0, time.Second}, {"pay", 0, 3 * time.Second}}, 0, 2 * time.Second},
		{"the last eight", append(many(100, time.Hour), many(8, time.Second)...), 0, time.Second},
		{"years", many(8, math.MaxInt64), 0, longestHold},
	} {
		var h holds
		for i, a := range tc.adds {
			if i >= 100 {
				a.fence += 1000
			}
			h.add(a.name, a.fence, a.length)
		}
		if got, known := h.typical("pay", tc.but); got != tc.want || known != (tc.want > 0) {
			t.Errorf("%s: %v, %t; want %v", tc.name, got, known, tc.want)
		}
	}
}

// A program that makes a name for each request pays no more memory.
func TestMemoryOfNamesIsBounded(t *testing.T) {
	var h holds
	var r refusalLog
	for i := range 10 * mostRefusals {
		h.add(fmt.Sprint(i), int64(i), time.Second)
		r.admits(refusalKind{name: fmt.Sprint(i), code: CodeBusy}, time.Unix(int64(i), 0)) // a second apart, so that each is logged
	}
	if len(h.byName) != mostNames || len(r.last) != mostRefusals {
		t.Errorf("%d names of holds and %d of refusals, want %d and %d", len(h.byName), len(r.last), mostNames, mostRefusals)
	}
	if _, known := h.typical(fmt.Sprint(10*mostRefusals-1), 0); !known {
		t.Error("the last name is not known")
	}
}
