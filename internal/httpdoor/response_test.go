package httpdoor

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The status is that of the answer: neither what comes before it nor what comes too late.
func TestStatusOfAResponse(t *testing.T) {
	for name, tc := range map[string]struct {
		write func(w http.ResponseWriter)
		want  int
	}{
		"nothing":  {func(http.ResponseWriter) {}, 0},
		"a body":   {func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) }, 0},
		"a status": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnprocessableEntity) }, 422},
		"an early hint": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusUnprocessableEntity)
		}, 422},
		"a second status": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusInternalServerError)
		}, 201},
		"a late status": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("x"))
			w.WriteHeader(http.StatusInternalServerError)
		}, 0},
	} {
		w := Watch(httptest.NewRecorder(), nil)
		tc.write(w)
		if got := w.Status(); got != tc.want {
			t.Errorf("%s: status %d, want %d", name, got, tc.want)
		}
		held := newBuffer(httptest.NewRecorder(), 100)
		tc.write(held)
		if got := held.Status(); got != max(tc.want, http.StatusOK) {
			t.Errorf("%s, held back: status %d, want %d", name, got, max(tc.want, http.StatusOK))
		}
	}
}
