package lockmw

import (
	"github.com/lockmw/kit/internal/store"
	"testing"
	"time"
)

func TestElapsedTimeIsTheClocksMaximum(t *testing.T) {
	start := now()
	for _, tc := range []struct {
		name       string
		mono, wall time.Duration
		want       time.Duration
	}{
		{"both go on", time.Second, time.Second, time.Second},
		{"the machine was suspended: only the wall clock went on", 0, time.Hour, time.Hour},
		{"the wall clock was set back", time.Second, -time.Hour, time.Second},
	} {
		later := instant{mono: start.mono + tc.mono, wall: start.wall + int64(tc.wall)}
		if got := later.since(start); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestGrantIsTrustedForLessThanItsTTL(t *testing.T) {
	for _, tc := range []struct{ ttl, want time.Duration }{
		{100 * time.Millisecond, 47 * time.Millisecond}, // less 1 ms + 2 ms drift, less 50 ms guard
		{30 * time.Second, 26698 * time.Millisecond},    // less 302 ms, less 3 s
	} {
		start := now()
		if got := (grant{since: start, ttl: tc.ttl}).left(start); got != tc.want {
			t.Errorf("TTL %v: trusted for %v, want %v", tc.ttl, got, tc.want)
		}
	}
}

func TestSuspendedMachineLosesTheLease(t *testing.T) {
	l := leaseFor(t, Policy{TTL: time.Minute})
	l.mu.Lock()
	l.grant.since.wall -= int64(2 * time.Minute) // the wall clock went on, the timers did not
	l.mu.Unlock()
	if l.Valid() {
		t.Error("Valid after the machine was suspended for two TTLs")
	}
	if err := l.Context().Err(); err == nil {
		t.Error("the context goes on")
	}
}

func TestGrantsAgeIsNeverUnderestimated(t *testing.T) {
	ws := newWaiters(10, 10, false)
	w, _, _ := ws.join(store.Ref{Key: "k", Token: "token"})
	if _, ok := w.line.since(1); ok {
		t.Error("an age was given without having heard from the server")
	}
	sent := instant{mono: now().mono - time.Minute, wall: now().wall - int64(time.Minute)}
	ws.heard(w, time.Now(), time.Now(), serverClock{sent, 1_000_000_000}, sighting{}, true)
	for _, tc := range []struct {
		name  string
		grant int64 // µs of the server's clock after it was heard
		want  time.Duration
	}{
		{"granted later", 10_000_000, 9900 * time.Millisecond},
		{"granted before the clock was last heard", -10_000_000, -10100 * time.Millisecond},
	} {
		got, ok := w.line.since(1_000_000_000 + tc.grant)
		if !ok || got.mono-sent.mono != tc.want {
			t.Errorf("%s: counts from %v after the question, want %v", tc.name, got.mono-sent.mono, tc.want)
		}
	}
	if _, ok := w.line.since(1_000_000_000 + int64(time.Hour/time.Microsecond)); ok {
		t.Error("a grant from the future was believed: another server's clock")
	}
	ws.askFirstsAgain()
	if _, ok := w.line.since(1_000_000_000); ok {
		t.Error("the clock of a former subscription was believed")
	}
}
