package echolock

import (
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/kit/internal/echodoor"
)

// version is Echo v5.
type version struct{}

var _ echodoor.Version[*echo.Context, http.ResponseWriter] = version{}

// Param returns a parameter as c.Param does. For an unknown method Echo keeps values of a
// route that it tried, under the names that a request before it had.
func (version) Param(c *echo.Context, i int) (name, value string, ok bool) {
	values := c.PathValues()
	if i >= len(values) || c.Get(echo.ContextKeyHeaderAllow) != nil {
		return "", "", false
	}
	return values[i].Name, values[i].Value, true
}

// Escaped reports whether the parameters are pieces of the path as it was sent. A router
// matches that path if it is not the usual spelling. With UseEscapedPathForMatching it
// matches the decoded path, and with UnescapePathParamValues it decodes the parameters.
// Which of these it has it does not tell; but if the pieces, put into the route, are the
// path that was sent, nothing was decoded.
func (version) Escaped(c *echo.Context) bool {
	sent := c.Request().URL.RawPath
	if sent == "" {
		return false
	}
	var values []any
	for _, param := range c.PathValues() {
		values = append(values, param.Value)
	}
	return echo.RouteInfo{Path: c.Path()}.Reverse(values...) == sent
}

// BindsQuery reports whether c.Bind reads the query.
func (version) BindsQuery(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete || method == echo.QUERY
}

// Unrouted is for unknown paths and methods. What runs for them may do work, which must
// not be done without a lock, unless it is a handler of Echo's own. Of a route of
// RouteNotFound, which Group.Use makes too, Echo does not tell.
func (version) Unrouted(c *echo.Context, _ error) echodoor.Unrouted {
	again := c.Echo().NewContext(c.Request(), nil) // to ask for the handler, which c does not tell
	handler := c.Echo().Router().Route(again)
	route := c.RouteInfo()
	if route.Method == "" && route.Name == "" { // in Echo.Pre the router was not asked yet
		route = again.RouteInfo()
	}
	switch {
	case route.Method == echo.RouteNotFound:
		return echodoor.Unrouted{Answer: echo.ErrNotFound}
	case route.Method != "":
		return echodoor.Unrouted{}
	case route.Name == again.RouteInfo().Name && slices.Contains(ownHandlers(), codeOf(handler)):
		return echodoor.Unrouted{Passes: true}
	case route.Name == echo.MethodNotAllowedRouteName:
		return echodoor.Unrouted{Answer: echo.ErrMethodNotAllowed}
	}
	return echodoor.Unrouted{Answer: echo.ErrNotFound}
}

// ownHandlers returns where the code is of Echo's handlers for unknown paths and methods
// and for OPTIONS.
var ownHandlers = sync.OnceValue(func() (own []uintptr) {
	router := echo.NewRouter(echo.RouterConfig{})
	_, _ = router.Add(echo.Route{Method: http.MethodGet, Path: "/", Handler: func(*echo.Context) error { return nil }})
	for _, request := range [][2]string{{http.MethodGet, "/unknown"}, {http.MethodPost, "/"}, {http.MethodOptions, "/"}} {
		r, err := http.NewRequest(request[0], request[1], nil)
		if err != nil {
			panic(err) // it is the same each time
		}
		own = append(own, codeOf(router.Route(echo.NewContext(r, nil))))
	}
	return own
})

// codeOf returns where a handler's code is: functions cannot be compared.
func codeOf(h echo.HandlerFunc) uintptr { return reflect.ValueOf(h).Pointer() }

// Response returns the writer of the context, to which middleware puts writers on top.
func (version) Response(c *echo.Context) http.ResponseWriter { return c.Response() }

// Below returns the same.
func (version) Below(r http.ResponseWriter) http.ResponseWriter { return r }

// Beneath returns where Echo's own writer writes to, which echo.UnwrapResponse finds in a
// handler, below the door's.
func (version) Beneath(r http.ResponseWriter) *http.ResponseWriter {
	own, err := echo.UnwrapResponse(r)
	if err != nil {
		return nil
	}
	return &own.ResponseWriter
}

// Watch gives the handler w.
func (version) Watch(c *echo.Context, _, w http.ResponseWriter) { c.SetResponse(w) }

// Hold gives the handler a writer of Echo's, because middleware looks for one by
// echo.UnwrapResponse, and that of the answer must not be found.
func (version) Hold(c *echo.Context, _, w http.ResponseWriter) {
	held := echo.NewResponse(w, c.Logger())
	held.Status = http.StatusOK
	c.SetResponse(held)
}

// PutBack undoes Watch and Hold.
func (version) PutBack(c *echo.Context, r, _ http.ResponseWriter) { c.SetResponse(r) }

// Commit has Echo know that an answer has begun.
func (version) Commit(r http.ResponseWriter) {
	if response, err := echo.UnwrapResponse(r); err == nil {
		response.Committed = true
	}
}

// IsCommitted reports whether Echo knows that an answer has begun.
func (version) IsCommitted(r http.ResponseWriter) bool {
	response, err := echo.UnwrapResponse(r)
	return err != nil || response.Committed
}
