package httpdoor

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/lockmw"
)

func TestProblemSaysWhenToComeBack(t *testing.T) {
	for _, tc := range []struct {
		after  time.Duration
		header string
		ms     int64
	}{
		{time.Second, "1", 1000},
		{1500 * time.Millisecond, "2", 1500},
		{29_000_000_001 * time.Nanosecond, "30", 29_000},
		{math.MaxInt64, "9223372037", 9223372036854},
	} {
		w := httptest.NewRecorder()
		WriteProblem(w, post(nil), door.Refusal(&lockmw.AcquireError{Err: lockmw.ErrNotAcquired, RetryAfter: tc.after}))
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Retry-After"); got != tc.header || p.RetryAfterMS != tc.ms {
			t.Errorf("after %v: Retry-After %q, retry_after_ms %d; want %q, %d", tc.after, got, p.RetryAfterMS, tc.header, tc.ms)
		}
	}
}

func TestProblemTakesBackWhatWasSaidOfAnotherBody(t *testing.T) {
	w := httptest.NewRecorder()
	for _, name := range []string{"Content-Length", "ETag", "Last-Modified", "Retry-After"} {
		w.Header().Set(name, "7")
	}
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("X-Outer", "1")
	w.Header().Set("Content-Encoding", "gzip") // by a compressor, which is still at work
	WriteProblem(w, post(nil), door.Refusal(lockmw.ErrLost))
	h := w.Result().Header
	if len(h) != 4 || h.Get("Content-Encoding") != "gzip" || h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" || h.Get("X-Outer") != "1" {
		t.Errorf("header = %v", h)
	}
	const want = `{"type":"about:blank","title":"Internal Server Error","status":500,` +
		`"detail":"Exclusive access was lost while the request was processed; it may have taken effect.","code":"LOCK_LOST"}` + "\n"
	if got := w.Body.String(); got != want || w.Code != 500 {
		t.Errorf("response = %d %s, want 500 %s", w.Code, got, want)
	}
}

func TestTooLargeBodyEndsTheConnection(t *testing.T) {
	for version, want := range map[int]string{1: "close", 2: ""} {
		r, w := post(nil), httptest.NewRecorder()
		r.ProtoMajor = version
		WriteProblem(w, r, door.Refusal(errors.Join(lockmw.ErrInvalidKey, &http.MaxBytesError{})))
		if got := w.Header().Get("Connection"); got != want || w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("HTTP/%d: status %d, Connection %q; want 413, %q", version, w.Code, got, want)
		}
	}
}
