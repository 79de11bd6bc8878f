package lockmw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Forecasts have a bound of their own: beyond it a call runs as ever, what it would have come to is not known, and whoever enforces has
// his lock.
func TestForecastsBeyondTheBoundAreNotMade(t *testing.T) {
	told := make(chan Event, 10)
	l, err := New(redistest.Embedded(t).Client(t), WithObserver(func(_ context.Context, e Event) {
		if e.Kind == EventShadowIncomplete {
			told <- e
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.Background()) }()
	l.shadows.mu.Lock()
	l.shadows.n = mostShadows
	l.shadows.mu.Unlock()
	_, lease, err := l.Acquire(context.Background(), "k", Policy{Shadow: true})
	if err != nil || !lease.Valid() || lease.Release(context.Background()) != nil {
		t.Fatalf("a call beyond the bound: %v, %v", lease, err)
	}
	if e := await.Receive(t, "that a forecast is incomplete", told); !errors.Is(e.Err, errShadows) || e.Key != "k" {
		t.Errorf("told %+v", e)
	}
	_, lease, err = l.Acquire(context.Background(), "k", Policy{})
	if err != nil || lease.Release(context.Background()) != nil {
		t.Errorf("a call that enforces: %v", err)
	}
	if l.shadows.locker != nil || l.shadows.n != mostShadows {
		t.Error("a forecast was begun")
	}
}

// A forecast that ends behind its trial says nothing about other trials that are over.
func TestATrialThatIsOverIsMixedForNobody(t *testing.T) {
	l, err := New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.Background()) }()
	for _, name := range []string{"a", "b"} {
		l.shadows.use(l, name)
		l.shadows.forget(name)
	}
	l.shadows.mixed("a")
	if l.shadows.isMixed("a") || l.shadows.isMixed("b") {
		t.Error("one of them is mixed")
	}
	l.shadows.use(l, "c")
	l.shadows.mixed("c")
	if !l.shadows.isMixed("c") {
		t.Error("one that goes on is not")
	}
}

// However many Names are in shadow, those that were seen stay seen, it is told that there are more, and a minute of the log has few lines.
func TestALotOfNamesInShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l, err := New(redistest.InMemory(t).Client(t), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(context.Background()) }()
		const minutes = 20
		for range minutes {
			for i := range 2 * mostInShade {
				l.shadows.use(l, fmt.Sprint("name", i))
			}
			time.Sleep(shoutEvery)
			stats := l.Stats()
			if len(stats.Names) != mostInShade || !stats.Names["name0"].Shadow || !stats.Names[fmt.Sprint("name", mostInShade-1)].Shadow || !stats.MoreShadow {
				t.Fatalf("%d names are in shadow, and more: %v", len(stats.Names), stats.MoreShadow)
			}
		}
		synctest.Wait()
		lines, further := strings.Count(log.String(), "runs in shadow"), strings.Count(log.String(), "further policies run in shadow")
		if lines != minutes*mostShouted || further != minutes {
			t.Errorf("%d lines with a name, and %d that say that there are more, in %d minutes", lines, further, minutes)
		}
		time.Sleep(shadowStays)
		l.shadows.use(l, "late")
		if stats := l.Stats(); len(stats.Names) != 1 || !stats.Names["late"].Shadow || stats.MoreShadow {
			t.Errorf("later: %+v", stats)
		}
	})
}

// An alert looks at the gauge for ten minutes: a policy that is used less often than once a minute does not leave it meanwhile.
func TestAPolicyThatIsUsedEveryFiveMinutesStaysInShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(redistest.InMemory(t).Client(t), WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(context.Background()) }()
		for range 3 {
			l.shadows.use(l, "job")
			for range 5 {
				time.Sleep(time.Minute)
				if !l.Stats().Names["job"].Shadow {
					t.Fatal("it is not told any more")
				}
			}
		}
		time.Sleep(15 * time.Minute)
		if l.Stats().Names["job"].Shadow {
			t.Error("it is told for ever")
		}
	})
}
