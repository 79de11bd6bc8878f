package httplock_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The lock inside of an http.TimeoutHandler does not see its 503: what the handler says counts,
// although nobody reads it. Its work may have been done when the time was up.
func TestHandlerThatGivesUpUnderATimeoutHandlerMustSaySo(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter)
		runs   int // for two requests
	}{
		"nothing": {func(http.ResponseWriter) {}, 1},
		"200":     {func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, 1},
		"503":     {func(w http.ResponseWriter) { http.Error(w, "too late", http.StatusServiceUnavailable) }, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			env := testenv.New(t, redistest.InMemory(t))
			returned := make(chan struct{}, 1)
			runs := 0
			lock := httplock.Middleware(env.Locks, keyfunc.Const("k"), lockmw.Policy{MinHold: time.Hour})
			locked := lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				<-r.Context().Done()
				tc.answer(w)
			}))
			handler := http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				locked.ServeHTTP(w, r)
				returned <- struct{}{}
			}), time.Second, "")
			for range 2 {
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
				<-returned
			}
			if runs != tc.runs {
				t.Errorf("%s: the handler ran %d times for two requests, want %d", name, runs, tc.runs)
			}
		})
	}
}

// The other way round the handler would go on without the lock after the timeout.
func TestTimeoutHandlerInsideOfTheLockPanicsAtTheStart(t *testing.T) {
	locks, _ := testenv.Locker(t)
	lock := httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{})
	defer func() {
		const want = "httplock: Middleware: http.TimeoutHandler inside of the lock leaves its handler at work without it; write http.TimeoutHandler(lock(handler), …)"
		if got := recover(); got != want {
			t.Errorf("panic = %v\nwant    %s", got, want)
		}
	}()
	lock(http.TimeoutHandler(http.NotFoundHandler(), time.Second, ""))
}
