package sim

import (
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A clock that jumps ahead ends locks, and calls may be told so; work that is noted is not begun again.
func TestTheClockJumpsAhead(t *testing.T) {
	for _, kind := range []WishKind{mutex, noted} {
		p := Plan{Seed: 1, Turns: 8}
		for i := range 2 {
			w := Wish{Kind: kind, Keys: []string{"m0"}, Work: 10 * time.Second, Policy: lockmw.Policy{Wait: time.Minute, TTL: 3 * time.Second}}
			p.Processes = append(p.Processes, Process{Callers: []Caller{{Name: i, Wishes: []Wish{w}}}})
		}
		for i := range 4 {
			p.Faults = append(p.Faults, Fault{Kind: Jumped, At: time.Duration(1+4*i)*time.Second + 300*time.Millisecond})
		}
		if r := Run(t, p); r.Wrong != nil || r.Faults != len(p.Faults) {
			t.Errorf("%v, %d faults, want nothing wrong, and all, of %s", r.Wrong, r.Faults, p)
		}
	}
}

// A setting in Redis ends by the server's clock, for those who read it first after that has jumped.
func TestTheClockJumpsAheadOfASetting(t *testing.T) {
	p := Plan{Seed: 1, Turns: 40, Changes: []Change{{At: time.Second, Pattern: "sim0/m", Silent: true, Set: Fields{Shadow: "true"}, For: 18 * time.Second}}}
	w := Wish{Kind: mutex, Keys: []string{"m0"}, Work: time.Second, Policy: lockmw.Policy{Name: "m", Wait: 2 * time.Second, TTL: 3 * time.Second}}
	p.Processes = []Process{{Service: "sim0", Reads: readsRedis, MayOff: true, Callers: []Caller{{Wishes: []Wish{w}}}}}
	p.Faults = []Fault{{Kind: Jumped, At: 2 * time.Second}}
	if r := Run(t, p); r.Wrong != nil || r.Frees == 0 || r.Holds == 0 {
		t.Errorf("%v, %d calls in shadow, %d holds, want nothing wrong, and both, of %s", r.Wrong, r.Frees, r.Holds, p)
	}
}
