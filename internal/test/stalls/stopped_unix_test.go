//go:build unix

package stalls

import (
	"os/exec"
	"testing"
	"time"
)

// A process that somebody stops and lets go on has stood still meanwhile, as on a machine that
// was stopped, and whoever asks first is told.
func TestAProcessThatWasStoppedStoodStill(t *testing.T) {
	for range 5 {
		m := During(t)
		began := time.Now()
		waker := time.After(150 * time.Millisecond) // within the stop
		stop := exec.CommandContext(t.Context(), "sh", "-c", "kill -STOP $PPID; sleep 0.3; kill -CONT $PPID")
		if err := stop.Start(); err != nil {
			t.Fatal(err)
		}
		<-waker
		longest := m.Longest(began, time.Now())
		got := m.Between(began, time.Now())
		all := time.Since(began)
		if err := stop.Wait(); err != nil {
			t.Fatal(err)
		}
		if all >= 290*time.Millisecond && got < 100*time.Millisecond || got > all || longest > got || longest < got/2 {
			t.Errorf("of %v the process stood still for %v, at most for %v at a time", all, got, longest)
		}
	}
}
