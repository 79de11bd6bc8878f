//go:build unix

package stalls

import (
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// A process that somebody stops and lets go on has stood still meanwhile, as on a machine that
// was stopped, and whoever asks first is told.
func TestAProcessThatWasStoppedStoodStill(t *testing.T) {
	const stop, times = 300 * time.Millisecond, 5
	stopped := 0
	for range times {
		m := During(t)
		began := time.Now()
		waker := time.After(stop / 2)
		shell := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("kill -STOP $PPID; sleep %v; kill -CONT $PPID", stop.Seconds()))
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		<-waker
		longest := m.Longest(began, time.Now())
		got := m.Between(began, time.Now())
		all := time.Since(began)
		if err := shell.Wait(); err != nil {
			t.Fatal(err)
		}
		if got > all || longest > got {
			t.Errorf("of %v the process stood still for %v, at most for %v at a time", all, got, longest)
		}
		if all < stop { // the shell was not there when the waker came
			continue
		}
		stopped++
		if longest < stop/2 {
			t.Errorf("of %v the longest stall was %v, want most of %v", all, longest, stop)
		}
	}
	if stopped == 0 {
		t.Errorf("the process was never stopped in %d times", times)
	}
}
