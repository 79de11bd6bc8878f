package worker

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/history"
)

func TestWhatIsHeldAtAMoment(t *testing.T) {
	p := &Process{
		holds: []history.Hold{{Began: 10 * time.Second, Ended: 11 * time.Second}},
		open:  map[int]history.Hold{1: {Began: 20 * time.Second}, 2: {Began: 14 * time.Second, Ended: 15 * time.Second}, 3: {Began: 17 * time.Second, Until: 18 * time.Second}},
	}
	for at, want := range map[time.Duration]bool{
		10 * time.Second: false, // it began only just then
		11 * time.Second: true,
		12 * time.Second: false,
		15 * time.Second: true, // it ends, and has not been released yet
		16 * time.Second: false,
		18 * time.Second: true,
		19 * time.Second: false, // its lease was over, whenever it will say so
		30 * time.Second: true,  // it has not ended
	} {
		if got := p.HeldAt(at); got != want {
			t.Errorf("HeldAt(%v) = %v, want %v", at, got, want)
		}
	}
}

func TestMain(m *testing.M) {
	Main()
	redistest.Main(m)
}

// What a killed worker held ends with the kill, however late a busy machine lets its end be seen, or before it: where it was about
// to release, and where its lease was over.
func TestAKilledWorkerHoldsNothing(t *testing.T) {
	began := clock.Now()
	over := began + time.Microsecond
	p := &Process{cmd: exec.Command("sleep", "60"), ended: make(chan struct{}), open: map[int]history.Hold{
		1: {ID: 1, Began: began, Until: began + time.Hour},
		2: {ID: 2, Began: began, Until: began + time.Hour, Ended: over},
		3: {ID: 3, Began: began, Until: over},
	}}
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
	if !p.Killed() {
		t.Error("it does not count as killed")
	}
	holds := p.Saw().Holds
	if len(holds) != 3 {
		t.Fatalf("%+v, want three", holds)
	}
	for _, h := range holds {
		if h.How != history.Killed || h.ID == 1 && (h.Ended <= over || h.Ended > later) || h.ID > 1 && h.Ended != over {
			t.Errorf("%+v, want that it was killed, and ended before %v, or at %v", h, later, over)
		}
		if h.Freed < p.killed {
			t.Errorf("%+v: it may have been renewed until the process was killed at %v", h, p.killed)
		}
	}
}

// Of a worker it is known until when its lease is valid, at any time.
func TestAWorkerTellsEachRenewal(t *testing.T) {
	p := Start(t, Config{
		Name: "w", Engine: engines.Ours, Redis: engines.One(redistest.Real(t).Addr()), TTL: 3 * time.Second, Wait: time.Minute,
		Keys: []Key{{Name: "k", Kind: history.Mutex, Goroutines: 1, StaysAlive: true}},
	}, Listener{})
	var first history.Hold
	await.Within(t, time.Minute, "it holds the lock", func() bool {
		open := p.Saw().Open
		if len(open) > 0 {
			first = open[0]
		}
		return len(open) > 0
	})
	if first.Until <= first.Began {
		t.Errorf("%+v, want a moment until which it is valid", first)
	}
	await.Within(t, time.Minute, "it tells a renewal", func() bool {
		saw := p.Saw()
		return len(saw.Open) > 0 && saw.Open[0].ID == first.ID && saw.Open[0].Until > first.Until
	})
}
