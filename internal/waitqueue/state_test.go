package waitqueue

import (
	"fmt"
	"testing"
)

// moves are all pairs of a state and an event that lead to another state. The table test
// goes through every pair, and wants all others to change nothing.
var moves = map[State]map[event]State{
	Resting:  {asks: Asking, offered: Offered, served: Served, leaves: Gone},
	Asking:   {queued: Queued, offered: Offered, served: Served, leaves: Gone},
	Queued:   {unqueued: Asking, served: Served, leaves: Gone},
	Offered:  {placed: Queued, declined: Asking, unanswered: Doubtful, served: Served, leaves: Gone},
	Doubtful: {offered: Offered, served: Served, leaves: Gone},
	Served:   {asks: Asking, leaves: Gone},
}

func TestEveryStateAndEvent(t *testing.T) {
	for was := range State(states) {
		for e := range event(events) {
			want, moved := moves[was][e]
			if !moved {
				want = was
			}
			q := &queue{resting: 1}
			w := &Waiter{state: was, queue: q}
			w.on(e)
			if w.state != want {
				t.Errorf("event %d has a waiter that is %v be %v, want %v", e, was, w.state, want)
			}
			if left := was == Resting && want != Resting; (q.resting == 0) != left {
				t.Errorf("event %d on one that is %v: %d rest", e, was, q.resting)
			}
		}
	}
}

// Whoever rests is not known to the store, so nothing may bring a waiter back to that, and
// nothing brings one back that has left.
func TestNobodyBeginsToRestAndNobodyComesBack(t *testing.T) {
	for was := range State(states) {
		for e := range event(events) {
			switch to := next[was][e]; {
			case to == Resting && was != Resting:
				t.Errorf("event %d has one that is %v rest", e, was)
			case was == Gone && to != Gone:
				t.Errorf("event %d brings one back that has left: %v", e, to)
			case e == leaves && to != Gone:
				t.Errorf("one that is %v cannot leave", was)
			}
		}
	}
}

func TestStatesHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for s := range State(states) {
		name := fmt.Sprint(s)
		if name == "" || seen[name] {
			t.Errorf("state %d is called %q", s, name)
		}
		seen[name] = true
	}
}
