package locktest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
)

// Locked sends requests to a service's handler, and fails the test for each that is
// served without asking l for a lock. Then a middleware is on another route, or was given
// to a router or a group that had its routes already. The program itself does not report
// that.
//
// A request is a method, a path and, if it has one, a JSON body, separated by blanks,
// such as "POST /orders/42/pay". The handlers run, one after the other. A request that is
// refused with lockmw.CodeKeyInvalid, for example because its key needs a header, counts
// as having its lock. One that is refused as a mistake of the program counts as having
// none. Locked does not check that the key is the right one; Hold and Keys do.
//
// Nobody else may use l meanwhile. Locked also fails the test if there is no request, if
// one cannot be sent, and if l is not from New.
func Locked(t testing.TB, l *lockmw.Locker, handler http.Handler, requests ...string) {
	t.Helper()
	s := stageOf(t, "Locked", l)
	if len(requests) == 0 {
		t.Fatalf("locktest: Locked: no request is given")
	}
	for _, request := range requests {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		_, err := http.NewRequestWithContext(t.Context(), method, path, http.NoBody) // httptest.NewRequest would panic
		if err != nil || !strings.HasPrefix(path, "/") {
			t.Fatalf("locktest: Locked: request %q is none; write one such as \"POST /orders/42/pay\"", request)
		}
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		s.asked.forget()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if asked, refused := s.asked.now(); !asked && refused != nil {
			t.Errorf("locktest: Locked: %q takes no lock (status %d): %v", request, w.Code, refused)
		} else if !asked {
			t.Errorf("locktest: Locked: %q takes no lock (status %d): no middleware of this Locker runs in front of its handler", request, w.Code)
		}
	}
}

// forget has now tell of what is asked for from now on.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.mistake = false, nil
}

// now reports whether a lock was asked for since forget, and otherwise which mistake of the program, if any,
// was in the way.
func (a *account) now() (asked bool, mistake error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked, a.mistake
}

// ask notes that a lock was asked for, or, if err says so, that no call can ask for it.
// The caller holds mu.
func (a *account) ask(err error) {
	if refusal, ok := lockmw.RefusalOf(err); ok && refusal.Code == lockmw.CodeMisuse && !errors.Is(err, lockmw.ErrReentrant) {
		a.mistake = err
		return
	}
	a.asked = true
}
