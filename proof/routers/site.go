// Package routers tests where the line with the lock goes in each router, what a key
// sees there, and what happens to a line in the wrong place. The table of
// routers in docs/middlewares.md is read by these tests. They are in this module, so that users of the
// locks do not have all of the routers as their dependencies.
//
// Start reading at this file, then rows_test.go (the lines) and routers_test.go. routes.go has
// the routers for package spellings, which asks them more.
package routers

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock"
	echolock5 "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Site is what a service has when it makes its routes. It serves one request at a time.
type Site struct {
	Locks *lockmw.Locker
	Key   keyfunc.Func
	Work  func(Call) // what the handler of each route does besides; nil: nothing

	Ran   bool   // a handler has run
	Under string // under which lock; "" for none
}

// A Call is what a handler gets.
type Call struct {
	Writer  http.ResponseWriter
	Request *http.Request
	// The contexts are nil in handlers of other frameworks.
	Gin   *gin.Context
	Echo  echo.Context
	Echo5 *echo5.Context
}

// http returns the lock and the handler for routers of net/http's handlers.
func (s *Site) http(opts ...httplock.Option) (lock func(http.Handler) http.Handler, pay http.HandlerFunc) {
	return httplock.Middleware(s.Locks, s.Key, lockmw.Policy{}, opts...), func(w http.ResponseWriter, r *http.Request) {
		s.pay(Call{Writer: w, Request: r})
	}
}

func (s *Site) gin() (lock, pay gin.HandlerFunc) {
	return ginlock.Middleware(s.Locks, s.Key, lockmw.Policy{}), func(c *gin.Context) {
		s.pay(Call{Writer: c.Writer, Request: c.Request, Gin: c})
	}
}

func (s *Site) echo() (lock echo.MiddlewareFunc, pay echo.HandlerFunc) {
	return echolock.Middleware(s.Locks, s.Key, lockmw.Policy{}), func(c echo.Context) error {
		s.pay(Call{Writer: c.Response(), Request: c.Request(), Echo: c})
		return nil
	}
}

func (s *Site) echo5() (lock echo5.MiddlewareFunc, pay echo5.HandlerFunc) {
	return echolock5.Middleware(s.Locks, s.Key, lockmw.Policy{}), func(c *echo5.Context) error {
		s.pay(Call{Writer: c.Response(), Request: c.Request(), Echo5: c})
		return nil
	}
}

func (s *Site) pay(call Call) {
	s.Ran = true
	if lease, ok := lockmw.FromContext(call.Request.Context()); ok {
		s.Under = lease.Key()
	}
	if s.Work != nil {
		s.Work(call)
	}
	fmt.Fprint(call.Writer, "paid")
}
