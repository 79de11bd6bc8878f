package echolock_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A handler of this framework that takes a lock itself can answer as the middleware does.
func TestHandlerWritesARefusal(t *testing.T) {
	locks, client := testenv.Locker(t)
	if _, _, err := testenv.Open(t, client).Acquire(context.Background(), "7", lockmw.Policy{}); err != nil {
		t.Fatal(err)
	}
	work := func(context.Context) error { return nil }
	r := echo.New()
	r.POST("/pay", func(c echo.Context) error {
		err := locks.WithLock(c.Request().Context(), "7", lockmw.Policy{}, work)
		if !httplock.WriteRefusal(c.Response(), c.Request(), err) {
			t.Errorf("%v is no refusal", err)
		}
		return nil
	})

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pay", nil))
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), lockmw.CodeBusy) || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v %s, want %s", w.Code, w.Header(), w.Body, lockmw.CodeBusy)
	}
}
