package lockmw

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// lasting is a store whose subscriptions last as long as it says, one after the other; zero
// is a try to subscribe that fails.
type lasting struct {
	store.Store
	each []time.Duration
}

func (s *lasting) Listen(ctx context.Context, h store.Listener) error {
	if len(s.each) == 0 {
		h.Listening()
		<-ctx.Done()
		return nil
	}
	lasts := s.each[0]
	s.each = s.each[1:]
	if lasts > 0 {
		h.Listening()
		time.Sleep(lasts)
	}
	return &store.Error{Err: errors.New("cut")}
}

// The log tells once that there is no subscription, and once that there is one again, also
// where each new one is cut, until one has lasted.
func TestTheLogTellsOfTheSubscription(t *testing.T) {
	const lost = `level=WARN msg="lockmw: no subscription to releases; waiters poll for their turn until there is one"`
	const there = `level=INFO msg="lockmw: subscribed to releases; waiters are told when it is their turn"`
	for name, tc := range map[string]struct {
		each []time.Duration
		want []string
	}{
		"never lost":          {nil, nil},
		"late":                {[]time.Duration{0, 0, 0}, []string{lost, there}},
		"cut":                 {[]time.Duration{time.Hour, 0, 0}, []string{lost, there}},
		"cut again and again": {[]time.Duration{0, time.Millisecond, time.Millisecond, 0, time.Second, 2 * soundAfter}, []string{lost, there, lost, there}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				l := &Locker{store: &lasting{each: tc.each}, reporting: reporting{log: slog.New(slog.NewTextHandler(&log, nil))}}
				l.waiters = waitqueue.NewSet(0, 0, false, nil)
				l.subscriber = newSubscriber(l)
				l.subscriber.start()
				time.Sleep(2 * time.Hour)
				l.subscriber.stop()
				lines := strings.SplitAfter(log.String(), "\n")
				for i, line := range append(tc.want, "") {
					if i >= len(lines) || !strings.Contains(lines[i], line) || line == "" && lines[i] != "" {
						t.Fatalf("logged %q, want %q", lines, tc.want)
					}
				}
			})
		})
	}
}
