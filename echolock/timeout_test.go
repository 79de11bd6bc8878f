package echolock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// An http.TimeoutHandler around all of Echo sends what it has kept, whatever a handler returns.
func TestWrittenAnswerUnderATimeoutHandlerStays(t *testing.T) {
	locks, client := testenv.Locker(t)
	e := echo.New()
	var told error
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		told = err
		e.DefaultHTTPErrorHandler(err, c)
	}
	e.POST("/", func(c echo.Context) error {
		_ = c.String(http.StatusCreated, "paid")
		client.Del(context.Background(), "lock:{k}")
		return nil
	}, echolock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}))
	answer := httptest.NewRecorder()
	http.TimeoutHandler(e, testenv.Patience, "").ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", nil))
	if answer.Code != http.StatusCreated || answer.Body.String() != "paid" || !errors.Is(told, lockmw.ErrLost) {
		t.Errorf("answer = %d %q, and Echo is told %v; want 201 paid, and %v", answer.Code, answer.Body, told, lockmw.ErrLost)
	}
}
