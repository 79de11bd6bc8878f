package worker

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/proof/clock"
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

// What a killed worker held ends with the kill, however late a busy machine lets its end be seen.
func TestAKilledWorkerHoldsNothing(t *testing.T) {
	p := &Process{cmd: exec.Command("sleep", "60"), ended: make(chan struct{}), open: map[int]history.Hold{1: {ID: 1, Began: clock.Now()}}}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told, tells := io.Pipe()
	go p.read(told)
	killed := make(chan struct{})
	go func() { defer close(killed); p.Kill() }()
	await.Within(t, 5*time.Second, "it is killed", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.killed > 0
	})
	later := clock.Now()
	if err := tells.Close(); err != nil { // only now its end is seen
		t.Fatal(err)
	}
	<-killed
	if holds := p.Saw().Holds; len(holds) != 1 || holds[0].How != history.Killed || holds[0].Ended > later {
		t.Errorf("%+v, want one that ended before %v", holds, later)
	}
}
