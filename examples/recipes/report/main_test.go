package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lockmw/kit/locktest"
)

func get(service http.Handler, day string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/reports/"+day, nil))
	return w
}

func TestEverybodyHasTheSameReport(t *testing.T) {
	locks := locktest.New(t)
	var made []string // the calls of generate hold the lock of their day
	service := routes(locks, func(_ context.Context, day string) (report, error) {
		if made = append(made, day); len(made) == 1 {
			locktest.AwaitWaiters(t, locks, once.Policy.Prefix+day, 4)
		}
		return report{Day: day, Text: "all is well"}, nil
	})
	const want = `{"day":"2026-11-27","text":"all is well","made":"0001-01-01T00:00:00Z"}` + "\n"
	answers := make([]*httptest.ResponseRecorder, 5)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = get(service, "2026-11-27") })
	}
	all.Wait()
	later := get(service, "2026-11-27")
	for _, w := range append([]*httptest.ResponseRecorder{later}, answers...) {
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if w := get(service, "2026-11-28"); !strings.Contains(w.Body.String(), `"day":"2026-11-28"`) {
		t.Errorf("another day: %d %s", w.Code, w.Body)
	}
	if len(made) != 2 {
		t.Errorf("made were %q, want one report for each of two days", made)
	}
}

// A failure is not kept, and what it says is not for clients.
func TestTheNextOneTriesAgain(t *testing.T) {
	failure := errors.New("the password of the database is wrong")
	service := routes(locktest.New(t), func(_ context.Context, day string) (report, error) { return report{Day: day}, failure })
	if w := get(service, "2026-11-27"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "could not be made") || strings.Contains(w.Body.String(), "password") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	failure = nil
	if w := get(service, "2026-11-27"); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestALargeReportIsAnswered(t *testing.T) {
	made := 0
	service := routes(locktest.New(t), func(_ context.Context, day string) (report, error) {
		made++
		return report{Day: day, Text: strings.Repeat("a", made<<20)}, nil
	})
	for want := 1; want <= 2; want++ {
		if w := get(service, "2026-11-27"); w.Code != http.StatusOK || w.Body.Len() < want<<20 {
			t.Errorf("%d, %d bytes, want those of report %d", w.Code, w.Body.Len(), want)
		}
	}
}

func TestWhoGetsNoReport(t *testing.T) {
	locks := locktest.New(t)
	service := routes(locks, func(context.Context, string) (report, error) {
		t.Error("a report is made")
		return report{}, nil
	})
	if w := get(service, "today"); w.Code != http.StatusBadRequest {
		t.Errorf("without a day: %d %s", w.Code, w.Body)
	}
	locktest.Down(t, locks)
	w := get(service, "2026-11-27")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"code":"LOCK_BACKEND_UNAVAILABLE"`) {
		t.Errorf("without Redis: %d %v %s", w.Code, w.Header(), w.Body)
	}
}
