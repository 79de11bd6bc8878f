package child

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/load"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) {
	IfChild()
	redistest.Main(m)
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestProcessesShareAWindow(t *testing.T) {
	spec := load.Spec{Library: library.Raw, Addr: redistest.Real(t).Addr(), Goroutines: 2, Keys: load.Own}
	other := spec
	other.Part = 1
	var r load.Result
	called := false
	for range 3 { // on a busy machine a window may be over before anybody has had a turn
		g, err := Start(limited(t), []load.Spec{spec, other})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now().Add(50 * time.Millisecond)
		r, err = g.Run(load.Window{Begin: begin, End: begin.Add(300 * time.Millisecond)}, func() error {
			called = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Turns > r.Most { // both had one
			break
		}
	}
	if !called || r.Turns == 0 || r.Most >= r.Turns {
		t.Errorf("called %v; %d turns, most %d", called, r.Turns, r.Most)
	}
}

func TestAChildThatFailsSaysWhy(t *testing.T) {
	_, err := Start(limited(t), []load.Spec{{Library: "etcd"}})
	if err == nil || !strings.Contains(err.Error(), `there is no library "etcd"`) {
		t.Errorf("error %v", err)
	}
}

func TestCloseEndsThoseWhoWait(t *testing.T) {
	g, err := Start(limited(t), []load.Spec{{Library: library.Raw, Addr: redistest.Real(t).Addr(), Goroutines: 1, Keys: load.One}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("the child did not say that its parent has left: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
