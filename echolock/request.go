package echolock

import (
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/internal/entry"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
)

// A view is what a key function sees of a request: the same as its handler.
type view struct {
	httpdoor.Visit
	c        echo.Context
	notFound bool // Echo's own answer is to be given
}

var _ httpdoor.Routed = (*view)(nil)

// Unrouted is for Echo.Use and Group.Use, by which middleware runs for unknown
// paths and methods, too.
func (v *view) Unrouted(err error) error {
	if v.isRefusedByEcho() {
		return keyfunc.Skip
	}
	if route, ok := v.notFoundRoute(); ok && (route.Name == nameOf(echo.NotFoundHandler) || errors.Is(err, keyfunc.ErrMisuse)) {
		v.notFound = true
		return keyfunc.Skip
	}
	return err
}

// isRefusedByEcho reports whether the router has no handler for the request: nothing
// but 404, 405 or an answer to OPTIONS follows. In Echo.Pre it was not asked yet,
// so there is no path either.
func (v *view) isRefusedByEcho() bool {
	if v.c.Path() != "" {
		return v.c.Get(echo.ContextKeyHeaderAllow) != nil
	}
	found := v.c.Echo().NewContext(v.Outer(), nil)
	v.router().Find(v.Method(), echo.GetPath(v.Outer()), found)
	return found.Path() == ""
}

// notFoundRoute returns the route of RouteNotFound that is there for the request.
// Group.Use makes such routes with echo.NotFoundHandler. Other handlers may do work,
// which must not be done without a lock.
func (v *view) notFoundRoute() (notFound *echo.Route, ok bool) {
	for _, route := range v.router().Routes() {
		switch {
		case route.Path != v.c.Path():
		case route.Method == v.Method():
			return nil, false
		case route.Method == echo.RouteNotFound:
			notFound = route
		}
	}
	return notFound, notFound != nil
}

func (v *view) router() *echo.Router {
	e := v.c.Echo()
	if router, ok := e.Routers()[v.Outer().Host]; ok {
		return router
	}
	return e.Router()
}

// nameOf returns the name that Echo gives a route for its handler.
func nameOf(h echo.HandlerFunc) string {
	return runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name()
}

// Route returns the route as it was registered, such as "/orders/:id".
func (v *view) Route() string { return v.c.Path() }

// Param returns what c.Param does, decoded. Echo matches the path as it was
// sent if that is not the usual spelling, and the decoded path otherwise; that
// one must not be decoded again. A handler that decodes every parameter does so,
// and one that decodes none sees the same in both; so a value of which that would
// make another is refused.
func (v *view) Param(name string) (string, bool) {
	value := v.c.Param(name)
	if name != "*" && strings.Contains(value, "/") {
		v.Refuse(errCrooked)
	}
	for i, other := range v.c.ParamNames() {
		if other == name && v.c.ParamValues()[i] != value {
			v.Refuse(errSameName)
		}
	}
	decoded, err := url.PathUnescape(value)
	if v.Outer().URL.RawPath == "" {
		if err == nil && decoded != value {
			v.Refuse(errTwice)
		}
		return value, value != ""
	}
	return decoded, err == nil && decoded != ""
}

var (
	errCrooked = errors.New("echolock: a route parameter took more than its segment of the path")
	errTwice   = errors.New("echolock: a route parameter was escaped twice, and handlers differ in how often they decode it")
	// c.Param returns the first of them, and c.Bind the last.
	errSameName    = errors.New("echolock: the route has two parameters of one name, and they differ")
	errInPath      = errors.New("echolock: the key is made from the query, where the name is missing, and c.Bind takes it from the path")
	errOverwritten = errors.New("echolock: the key is made from the query, and c.Bind overwrites it by what is in the body")
)

// Query returns what c.QueryParam does. Where c.Bind reads the query it reads
// the path before it and the body after it, into the same fields.
func (v *view) Query(name string) (string, bool) {
	v.CheckQuery(name)
	switch v.Method() {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		if v.HasBody() {
			v.Refuse(errOverwritten)
		}
	}
	if values := v.c.QueryParams()[name]; len(values) > 0 {
		return values[0], true
	}
	if slices.ContainsFunc(v.c.ParamNames(), func(other string) bool { return strings.EqualFold(other, name) }) {
		v.Refuse(errInPath)
	}
	return "", false
}

// Value returns what c.Get does.
func (v *view) Value(name string) (any, bool) {
	value := v.c.Get(name)
	return value, value != nil
}

const nativeKey = "echolock.Key" // for errors

// Key makes a key function of one that reads an Echo context. It works in
// echolock only. The function must not read the body. What it returns is
// escaped where a key may not hold a character, as in keyfunc.Value; an empty
// string is keyfunc.ErrMissing. The function must escape values that it joins
// itself, or leave that to keyfunc.Join. Key panics if it is nil.
func Key(key func(echo.Context) (string, error)) keyfunc.Func {
	if key == nil {
		panic("echolock: Key: the function is nil")
	}
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*view](r)
		if !ok {
			return entry.NativeElsewhere(nativeKey, r)
		}
		s, err := key(v.c)
		return entry.NativeKey(nativeKey, s, err)
	}
}
