package holds

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
		var h History
		for i, a := range tc.adds {
			if i >= 100 {
				a.fence += 1000
			}
			h.Add(a.name, a.fence, a.length)
		}
		if got, known := h.typical("pay", tc.but); got != tc.want || known != (tc.want > 0) {
			t.Errorf("%s: %v, %t; want %v", tc.name, got, known, tc.want)
		}
	}
}

// A program that makes a name for each request pays no more memory.
func TestMemoryOfNamesIsBounded(t *testing.T) {
	var h History
	for i := range 10 * mostNames {
		h.Add(fmt.Sprint(i), int64(i), time.Second)
	}
	if len(h.byName) != mostNames {
		t.Errorf("%d names, want %d", len(h.byName), mostNames)
	}
	if _, known := h.typical(fmt.Sprint(10*mostNames-1), 0); !known {
		t.Error("the last name is not known")
	}
}

func TestLocksComeFree(t *testing.T) {
	const ttl = 30 * time.Second
	var never, lately History
	for fence := range int64(4) {
		lately.Add("pay", fence+1, 10*time.Second)
	}
	for _, tc := range []struct {
		name string
		of   *History
		lock Lock
		want time.Duration
	}{
		{"nothing is known", &never, Lock{Left: ttl}, Soonest},
		{"a typical hold", &lately, Lock{Left: ttl}, 10 * time.Second},
		{"held already", &lately, Lock{Left: ttl, Age: 4 * time.Second}, 6 * time.Second},
		{"about to end", &lately, Lock{Left: ttl, Age: 9900 * time.Millisecond}, Soonest},
		{"held for longer than usual", &lately, Lock{Left: ttl, Age: time.Hour}, Soonest},
		{"not renewed", &never, Lock{Left: 12 * time.Second, Age: time.Hour}, 12 * time.Second},
		{"the work may end before the lock is free", &never, Lock{Left: ttl, Least: 20 * time.Second, Age: 5 * time.Second}, Soonest},
		{"the next turn ends when the lock is free", &never, Lock{Left: ttl, Least: 20 * time.Second, Age: 5 * time.Second, Turns: 1}, 21 * time.Second},
		{"cooling down", &lately, Lock{Left: 3 * time.Second, Age: 40 * time.Second, CoolingDown: true}, 3 * time.Second},
		{"two wait", &lately, Lock{Left: ttl, Age: 9 * time.Second, Turns: 2}, 21 * time.Second},
		{"many wait", &lately, Lock{Left: ttl, Turns: 1000}, ttl},
		{"the last hold is this one", &lately, Lock{Left: ttl, Age: 10 * time.Second, Fence: 4}, Soonest},
		{"countless wait", &lately, Lock{Left: ttl, Turns: math.MaxInt}, 10 * time.Second},
	} {
		tc.lock.Name, tc.lock.TTL = "pay", ttl
		if got := tc.of.ComesFree(tc.lock); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
