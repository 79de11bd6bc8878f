//go:build unix

package stalls

import (
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// A process that somebody stops and lets go on has stood still meanwhile, as on a machine that
// was stopped. On a busy machine the shell may come too late for the waker, so it is tried again.
func TestAProcessThatWasStoppedStoodStill(t *testing.T) {
	const stop, times = 300 * time.Millisecond, 10
	for range times {
		m := During(t)
		began := time.Now()
		shell := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("kill -STOP $PPID; sleep %v; kill -CONT $PPID", stop.Seconds()))
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stop / 2)
		longest := m.Longest(began, time.Now())
		together := m.Between(began, time.Now())
		all := time.Since(began)
		if err := shell.Wait(); err != nil {
			t.Fatal(err)
		}
		if longest > together || together > all {
			t.Fatalf("of %v the process stood still for %v, at most for %v at a time", all, together, longest)
		}
		if longest >= stop/2 {
			return
		}
	}
	t.Errorf("no stall of %v was seen in %d stops of %v", stop/2, times, stop)
}
