package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestAFormerLeaderIsRefused(t *testing.T) {
	locks := locktest.New(t)
	var s store
	var fences []int64
	for range 2 {
		err := locks.WithLock(t.Context(), "summary", lockmw.Policy{}, func(ctx context.Context) error {
			lease, _ := lockmw.FromContext(ctx)
			fences = append(fences, lease.Fence())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.write(fences[1], "by the second"); err != nil {
		t.Fatal(err)
	}
	if err := s.write(fences[0], "by the first"); !errors.Is(err, errStale) || s.text != "by the second" {
		t.Errorf("err = %v, and the store has %q", err, s.text)
	}
	if err := s.write(fences[1], "again"); err != nil {
		t.Error(err)
	}
}

func TestMetricsTellWhoLeads(t *testing.T) {
	locks := locktest.New(t)
	leader := locks.Leader("summary", lockmw.Policy{})
	handler := routes(locks, leader)
	gauge := func() string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	if got := gauge(); !strings.Contains(got, "summary_leader 0") {
		t.Errorf("before: %s", got)
	}
	err := leader.Run(t.Context(), func(context.Context) error {
		if got := gauge(); !strings.Contains(got, "summary_leader 1") {
			t.Errorf("while it leads: %s", got)
		}
		return nil
	})
	if got := gauge(); err != nil || !strings.Contains(got, "summary_leader 0") {
		t.Errorf("after: %s, %v", got, err)
	}
}

func TestTheLeaderWritesAndStops(t *testing.T) {
	locks := locktest.New(t)
	var s store
	ctx, stop := context.WithCancel(t.Context())
	leader := locks.Leader("summary", lockmw.Policy{})
	err := leader.Run(ctx, func(ctx context.Context) error {
		stop()
		return lead(ctx, &s)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if keys := locktest.Keys(t, locks); len(keys) != 0 {
		t.Errorf("%q is still locked", keys)
	}
}
