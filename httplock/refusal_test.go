package httplock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A handler that takes a lock itself answers as the middleware in front of another one does.
func TestWriteRefusalAnswersAsTheMiddleware(t *testing.T) {
	locks, client := testenv.Locker(t)
	other := testenv.Open(t, client)
	if _, _, err := other.Acquire(context.Background(), "order:7", lockmw.Policy{}); err != nil {
		t.Fatal(err)
	}
	var own error
	mux := http.NewServeMux()
	mux.Handle("POST /middleware", httplock.Middleware(locks, httplock.Key(func(*http.Request) (string, error) { return "7", nil }), lockmw.Policy{Prefix: "order:"})(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it runs without its lock") })))
	mux.HandleFunc("POST /handler", func(w http.ResponseWriter, r *http.Request) {
		own = locks.WithLock(r.Context(), "7", lockmw.Policy{Prefix: "order:"}, func(context.Context) error { return nil })
		w.Header().Set("ETag", "of another answer")
		if !httplock.WriteRefusal(w, r, own) {
			t.Errorf("%v is no refusal", own)
		}
	})
	var answers [2]*httptest.ResponseRecorder
	for i, path := range []string{"/middleware", "/handler"} {
		answers[i] = httptest.NewRecorder()
		mux.ServeHTTP(answers[i], httptest.NewRequest(http.MethodPost, path, nil))
	}
	want, got := answers[0], answers[1]
	if got.Code != http.StatusConflict || got.Code != want.Code || got.Body.String() != want.Body.String() || fmt.Sprint(got.Header()) != fmt.Sprint(want.Header()) {
		t.Errorf("%d %v %s, and the middleware answers %d %v %s", got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
	}
	if text := got.Body.String(); strings.Contains(text, "order") || !strings.Contains(text, lockmw.CodeBusy) || got.Header().Get("Retry-After") == "" {
		t.Errorf("%v %s, want %s, a Retry-After and no key", got.Header(), text, lockmw.CodeBusy)
	}
}

// What is none of ours is left to the handler.
func TestWriteRefusalLeavesOtherErrors(t *testing.T) {
	for _, err := range []error{nil, errors.New("declined"), context.DeadlineExceeded} {
		w := httptest.NewRecorder()
		if httplock.WriteRefusal(w, httptest.NewRequest(http.MethodPost, "/", nil), err) || len(w.Header()) > 0 || w.Body.Len() > 0 || w.Flushed {
			t.Errorf("%v: it has written %v %q", err, w.Header(), w.Body)
		}
	}
}

// Behind Idempotent a refusal is for its own client: nothing was done. That the lock was lost is another thing: nobody knows what was done, and whoever
// sends the request again is told so.
func TestWriteRefusalBehindIdempotent(t *testing.T) {
	uncertain := lockmw.Flight{Crash: lockmw.Uncertain, Retain: time.Hour}
	for name, tc := range map[string]struct {
		err           error
		undone        bool
		first, second string
		runs          int
	}{
		"refused":                {fmt.Errorf("the order: %w", lockmw.ErrQueueFull), false, "503 LOCK_QUEUE_FULL", "503 LOCK_QUEUE_FULL", 2},
		"the work does not know": {fmt.Errorf("the bank: %w", lockmw.ErrUncertain), false, "409 IDEMPOTENCY_UNCERTAIN", "409 IDEMPOTENCY_UNCERTAIN", 1},
		"lost":                   {fmt.Errorf("the order: %w", lockmw.ErrLost), false, "500 LOCK_LOST", "409 IDEMPOTENCY_UNCERTAIN", 1},
		"lost, and undone":       {fmt.Errorf("the order: %w", lockmw.ErrLost), true, "500 LOCK_LOST", "500 LOCK_LOST", 2},
	} {
		t.Run(name, func(t *testing.T) {
			answers, runs := twice(t, uncertain, func(w http.ResponseWriter, r *http.Request) {
				httplock.WriteRefusal(w, r, tc.err)
				if tc.undone {
					lockmw.NotAnAnswer(r.Context())
				}
			}, nil)
			for i, want := range []string{tc.first, tc.second} {
				if got := textOf(answers[i]); got != want {
					t.Errorf("%d: %s, want %s", i, got, want)
				}
				if answers[i].Header.Get("Idempotent-Replayed") != "" {
					t.Errorf("%d: it is given again", i)
				}
			}
			if runs != tc.runs {
				t.Errorf("the handler ran %d times, want %d", runs, tc.runs)
			}
		})
	}
}
