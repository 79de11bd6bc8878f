package lockadmin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// What the operator types as the reason, and who that is, reaches the holder. A text that no log should have is refused, and nothing is
// released.
func TestAReleaseSaysWhoWantsItAndWhy(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	for name, tc := range map[string]struct {
		opts   []lockadmin.Option
		reason string
		want   lockmw.Intervention
	}{
		"by default": {nil, " INC-42 ", lockmw.Intervention{Author: "console, from 127.0.0.1", Reason: "INC-42"}},
		"with names": {
			[]lockadmin.Option{lockadmin.WithAuthor(func(*http.Request) string { return "ana\n" + strings.Repeat("\u00fc", 100) })}, "",
			lockmw.Intervention{Author: "ana" + strings.Repeat("\u00fc", 62)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			locks := testenv.Open(t, s.Client(t))
			server := httptest.NewServer(lockadmin.Handler(locks, append(tc.opts, lockadmin.WithForceRelease(anybody))...))
			t.Cleanup(server.Close)
			v, key := open(t, server.URL), redistest.Prefix(t)
			_, lease, err := locks.Acquire(context.Background(), key, lockmw.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			wish := map[string]any{"key": key, "holders": json.RawMessage(v.shown(key)), "reason": "several\nlines"}
			if status, text := v.wishes(wish, nil); status != http.StatusBadRequest || !strings.Contains(text, "reason") || !lease.Valid() {
				t.Errorf("a bad reason: %d %s", status, text)
			}
			wish["reason"] = tc.reason
			if status, text := v.wishes(wish, nil); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			var revoked *lockmw.RevokedError
			if cause := context.Cause(lease.Context()); !errors.As(cause, &revoked) || revoked.Intervention != tc.want {
				t.Errorf("the holder learns %v, want %v", cause, tc.want)
			}
			_ = lease.Release(context.Background())
		})
	}
}

// Who resolves work is told as well.
func TestAResolutionSaysWhoWantsItAndWhy(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []lockmw.Event
	locks := testenv.Open(t, redistest.Embedded(t).Client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == lockmw.EventResolved {
			told = append(told, e)
		}
	}))
	server := httptest.NewServer(lockadmin.Handler(locks, lockadmin.WithResolve(anybody)))
	t.Cleanup(server.Close)
	v, flight := open(t, server.URL), lockmw.Flight{Crash: lockmw.Uncertain, Retain: time.Minute}
	if _, _, err := lockmw.Do(context.Background(), locks, "pay", flight, func(ctx context.Context) (int, error) {
		lockmw.MarkUncertain(ctx)
		return 0, errors.New("the bank did not answer")
	}); err == nil {
		t.Fatal("no error")
	}
	_, _, err := lockmw.Do(context.Background(), locks, "pay", flight, func(context.Context) (int, error) { return 0, nil })
	var uncertain *lockmw.UncertainError
	if !errors.As(err, &uncertain) {
		t.Fatal(err)
	}
	if status, text := v.wishes(map[string]any{"key": "pay", "work": uncertain.ID, "as": "again", "reason": "INC-42"}, nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || told[0].Intervention != (lockmw.Intervention{Author: "console, from 127.0.0.1", Reason: "INC-42"}) {
		t.Errorf("told %+v", told)
	}
}
