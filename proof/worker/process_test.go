package worker

import (
	"testing"
	"time"

	"github.com/lockmw/kit/proof/history"
)

func TestWhatIsHeldAtAMoment(t *testing.T) {
	p := &Process{
		holds: []history.Hold{{Began: 10 * time.Second, Ended: 11 * time.Second}},
		open:  map[int]history.Hold{1: {Began: 20 * time.Second}, 2: {Began: 14 * time.Second, Ended: 15 * time.Second}},
	}
	for at, want := range map[time.Duration]bool{
		10 * time.Second: false, // it began only just then
		11 * time.Second: true,
		12 * time.Second: false,
		15 * time.Second: true, // it ends, and has not been released yet
		16 * time.Second: false,
		30 * time.Second: true, // it has not ended
	} {
		if got := p.HeldAt(at); got != want {
			t.Errorf("HeldAt(%v) = %v, want %v", at, got, want)
		}
	}
}
