// Package routers tests where the line with the lock goes in each router, what a key
// sees there, and what happens to a line in the wrong place. The table of
// routers in docs/middlewares.md is read by these tests. They are in this module, so that users of the
// locks do not have all of the routers as their dependencies.
//
// Start reading at this file, then rows_test.go (the lines) and routers_test.go.
package routers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock"
	echolock5 "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A site is what a service has when it makes its routes.
type site struct {
	locks *lockmw.Locker
	key   keyfunc.Func
	ran   bool
	under string // which lock the handler ran; "" for none
}

func newSite(t *testing.T, template string) *site {
	t.Helper()
	locks, err := lockmw.New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &site{locks: locks, key: keyfunc.MustParse(template)}
}

// http returns the lock and the handler for routers of net/http's handlers.
func (s *site) http(opts ...httplock.Option) (lock func(http.Handler) http.Handler, pay http.HandlerFunc) {
	return httplock.Middleware(s.locks, s.key, lockmw.Policy{}, opts...), s.pay
}

func (s *site) gin() (lock, pay gin.HandlerFunc) {
	return ginlock.Middleware(s.locks, s.key, lockmw.Policy{}), func(c *gin.Context) { s.pay(c.Writer, c.Request) }
}

func (s *site) echo() (lock echo.MiddlewareFunc, pay echo.HandlerFunc) {
	return echolock.Middleware(s.locks, s.key, lockmw.Policy{}), func(c echo.Context) error {
		s.pay(c.Response(), c.Request())
		return nil
	}
}

func (s *site) echo5() (lock echo5.MiddlewareFunc, pay echo5.HandlerFunc) {
	return echolock5.Middleware(s.locks, s.key, lockmw.Policy{}), func(c *echo5.Context) error {
		s.pay(c.Response(), c.Request())
		return nil
	}
}

func (s *site) pay(w http.ResponseWriter, r *http.Request) {
	s.ran = true
	if lease, ok := lockmw.FromContext(r.Context()); ok {
		s.under = lease.Key()
	}
	fmt.Fprint(w, "paid")
}

// An answer is a status, and the code if it is a refusal.
type answer struct {
	status int
	code   string
}

func post(service http.Handler, path string) answer {
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	var problem struct{ Code string }
	_ = json.Unmarshal(w.Body.Bytes(), &problem) // other answers are no JSON
	return answer{w.Code, problem.Code}
}
