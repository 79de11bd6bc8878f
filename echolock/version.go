package echolock

import (
	"errors"
	"net/http"
	"reflect"
	"runtime"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// version is Echo v4.
type version struct{}

var _ echodoor.Version[echo.Context, *echo.Response] = version{}

// Param returns a parameter as c.Param does.
func (version) Param(c echo.Context, i int) (name, value string, ok bool) {
	names, values := c.ParamNames(), c.ParamValues()
	if i >= len(names) || i >= len(values) {
		return "", "", false
	}
	return names[i], values[i], true
}

// Escaped reports whether Echo matches the path as it was sent, which it does if that is
// not the usual spelling. Otherwise it matches the decoded path, and that one must not be
// decoded again.
func (version) Escaped(c echo.Context) bool { return c.Request().URL.RawPath != "" }

// BindsQuery reports whether c.Bind reads the query.
func (version) BindsQuery(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete
}

// Unrouted is for unknown paths and methods.
func (version) Unrouted(c echo.Context, err error) echodoor.Unrouted {
	if isRefusedByEcho(c) {
		return echodoor.Unrouted{Passes: true}
	}
	if route, ok := notFoundRoute(c); ok && (route.Name == nameOf(echo.NotFoundHandler) || errors.Is(err, keyfunc.ErrMisuse)) {
		return echodoor.Unrouted{Answer: echo.ErrNotFound}
	}
	return echodoor.Unrouted{}
}

// isRefusedByEcho reports whether the router has no handler for the request: nothing
// but 404, 405 or an answer to OPTIONS follows. In Echo.Pre it was not asked yet,
// so there is no path either.
func isRefusedByEcho(c echo.Context) bool {
	if c.Path() != "" {
		return c.Get(echo.ContextKeyHeaderAllow) != nil
	}
	found := c.Echo().NewContext(c.Request(), nil)
	router(c).Find(c.Request().Method, echo.GetPath(c.Request()), found)
	return found.Path() == ""
}

// notFoundRoute returns the route of RouteNotFound that is there for the request.
// Group.Use makes such routes with echo.NotFoundHandler. Other handlers may do work,
// which must not be done without a lock.
func notFoundRoute(c echo.Context) (notFound *echo.Route, ok bool) {
	for _, route := range router(c).Routes() {
		switch {
		case route.Path != c.Path():
		case route.Method == c.Request().Method:
			return nil, false
		case route.Method == echo.RouteNotFound:
			notFound = route
		}
	}
	return notFound, notFound != nil
}

func router(c echo.Context) *echo.Router {
	e := c.Echo()
	if router, ok := e.Routers()[c.Request().Host]; ok {
		return router
	}
	return e.Router()
}

// nameOf returns the name that Echo gives a route for its handler.
func nameOf(h echo.HandlerFunc) string {
	return runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name()
}

// Response returns Echo's own writer. Middleware puts writers of its own below it.
func (version) Response(c echo.Context) *echo.Response { return c.Response() }

// Below returns what Echo's writer writes to.
func (version) Below(r *echo.Response) http.ResponseWriter { return r.Writer }

// Beneath returns nil: the door's writer is the one below Echo's.
func (version) Beneath(*echo.Response) *http.ResponseWriter { return nil }

// Watch puts w below Echo's writer.
func (version) Watch(_ echo.Context, r *echo.Response, w http.ResponseWriter) { r.Writer = w }

// Hold gives the handler a writer of Echo's that is not the one of the answer.
func (version) Hold(c echo.Context, _ *echo.Response, w http.ResponseWriter) {
	held := echo.NewResponse(w, c.Echo())
	held.Status = http.StatusOK
	c.SetResponse(held)
}

// PutBack undoes Watch and Hold.
func (version) PutBack(c echo.Context, r *echo.Response, below http.ResponseWriter) {
	r.Writer = below
	c.SetResponse(r)
}

// Commit has Echo know that an answer has begun.
func (version) Commit(r *echo.Response) { r.Committed = true }

// IsCommitted reports whether Echo knows that an answer has begun.
func (version) IsCommitted(r *echo.Response) bool { return r.Committed }

// Refusal returns an *echo.HTTPError whose message is the problem.
func (version) Refusal(o lockmw.Refusal, err error) error {
	return &echo.HTTPError{Code: o.Status, Message: httpdoor.ProblemOf(o), Internal: err}
}

// Answers reports whether err is an *echo.HTTPError. One that it wraps may be that of a
// handler which lost the lock.
func (version) Answers(err error) bool {
	_, answers := err.(*echo.HTTPError) //nolint:errorlint // see above
	return answers
}

// Render has the HTTPErrorHandler answer err.
func (version) Render(c echo.Context, err error) { c.Error(err) }
