package ginlock

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
)

// A view is what a key function sees of a request: the same as its handler.
type view struct {
	httpdoor.Visit
	c          *gin.Context
	middleware *middleware
	notFound   bool // Gin's own answer is to stay
}

var _ httpdoor.Routed = (*view)(nil)

// checkPlace has Enter refuse a request to a route whose handlers end with the
// middleware, as if it were Echo's, where it stands behind the handler. That one has
// run without the lock already, and so has one that has answered in front of the middleware.
func (v *view) checkPlace() {
	if route := v.c.FullPath(); route != "" && v.isLast() {
		v.Refuse(fmt.Errorf("%w: ginlock: nothing runs under the lock of route %q, because no handler stands behind the middleware: "+
			"write r.POST(path, lock, handler)", keyfunc.ErrMisuse, route))
	} else if v.c.Writer.Written() {
		v.Refuse(fmt.Errorf("%w: ginlock: a handler in front of the middleware has answered the request to route %q without the lock: "+
			"write r.POST(path, lock, handler)", keyfunc.ErrMisuse, route))
	}
}

// Unrouted is for gin.Engine.Use, by which middleware runs for unknown paths, too.
// Gin has set the status then, and answers with it if nothing else does. Whether a
// handler of gin.Engine.NoRoute follows, it does not tell. That one must not work
// without a lock, and never has a key that needs a route. So what follows does not run.
func (v *view) Unrouted(err error) error {
	if !v.isUnknown() {
		return err
	}
	if !v.isLast() && !v.middleware.door.NeedsRoute() {
		return err
	}
	v.notFound = true
	return keyfunc.Skip
}

// isUnknown reports whether Gin has no route for the request, and answers so itself if nothing else does.
func (v *view) isUnknown() bool {
	status := v.c.Writer.Status()
	return v.c.FullPath() == "" && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed)
}

// isLast reports whether no other handler than of this package is the last one of
// the request. Functions cannot be compared, but the code of a method is no other
// function's.
func (v *view) isLast() bool {
	last := codeOf(v.c.Handler())
	return last == codeOf(v.middleware.handle) || last == codeOf(v.middleware.handleOnce)
}

func codeOf(h gin.HandlerFunc) uintptr { return reflect.ValueOf(h).Pointer() }

// Route returns the route as it was registered, such as "/orders/:id". It is
// empty where no route matched.
func (v *view) Route() string { return v.c.FullPath() }

// Param returns what c.Param does, if handlers cannot differ in what that names: it is
// decoded, also where the engine was told to leave that to its handlers. Without a route there are none: Gin may leave
// parameters of a route that it tried.
func (v *view) Param(name string) (string, bool) {
	if v.c.FullPath() == "" {
		return "", false
	}
	value, ok := v.c.Params.Get(name)
	for _, p := range v.c.Params {
		if p.Key == name && p.Value != value {
			v.Refuse(door.Unread("param", name, httpdoor.ErrTwoParams)) // c.Param returns the first of them, and c.ShouldBindUri the last
		}
	}
	value, _ = v.RouteParam(name, value, false)
	return value, ok
}

// Query returns what c.GetQuery does.
func (v *view) Query(name string) (string, bool) {
	v.CheckQuery(name)
	return v.c.GetQuery(name)
}

// Cookie returns what c.Cookie does, which is decoded.
func (v *view) Cookie(name string) (string, bool, error) {
	if _, ok, err := v.Visit.Cookie(name); !ok || err != nil {
		return "", false, err
	}
	value, err := v.c.Cookie(name)
	return value, err == nil && value != "", nil
}

// Value returns what c.Get does.
func (v *view) Value(name string) (any, bool) { return v.c.Get(name) }

var errBinding = errors.New("c.ShouldBind does not read the body of such a request as JSON")

// Body returns a field of the JSON body, also if c.ShouldBindBodyWith has read
// it before. What c.ShouldBind would take for something else than JSON is an
// error: any body of a GET, and a type that Gin does not know for JSON, of which
// it makes a form. Of that it finds the fields in the query, if there is one, also
// without a body.
func (v *view) Body(path string) (string, bool, error) {
	v.findBody()
	text, ok, err := v.Visit.Body(path)
	if err == nil {
		err = v.checkBinding()
	}
	if err != nil {
		return "", false, err
	}
	return text, ok, nil
}

// Elements returns the elements of an array in the JSON body, like Body.
func (v *view) Elements(path string, max int) ([]keyfunc.Element, bool, error) {
	v.findBody()
	list, ok, err := v.Visit.Elements(path, max)
	if err == nil {
		err = v.checkBinding()
	}
	if err != nil {
		return nil, false, err
	}
	return list, ok, nil
}

// findBody finds the body that c.ShouldBindBodyWith has read.
func (v *view) findBody() {
	if bytes, ok := v.c.Get(gin.BodyBytesKey); ok {
		if bytes, ok := bytes.([]byte); ok {
			v.UseBody(bytes)
		}
	}
}

// checkBinding returns an error if c.ShouldBind does not read the body as JSON.
func (v *view) checkBinding() error {
	if _, found := v.KeyBody(); found || v.c.Request.URL.RawQuery != "" {
		if binding.Default(v.c.Request.Method, v.c.ContentType()) != binding.Binding(binding.JSON) {
			return errBinding
		}
	}
	return nil
}

// keepBody has c.ShouldBindBodyWith see the body that the key was made from.
func (v *view) keepBody() {
	if bytes, ok := v.KeyBody(); ok {
		v.c.Set(gin.BodyBytesKey, bytes)
	}
}

const nativeKey = "ginlock.Key" // for errors

// Key makes a key function of a function that reads a Gin context. The result works in
// ginlock only. The function may read the body, up to WithBodyLimit; the handlers still
// get all of it, from its beginning. If the function reads further, or the body cannot be
// read, the request is refused with 413 or 400, whatever the function returns.
//
// In what the function returns, characters that a key may not hold are escaped, as in
// keyfunc.Value. An empty string is keyfunc.ErrMissing. If the function joins several
// values, it must escape them itself, or leave that to keyfunc.Join. Key panics if it is
// given nil.
func Key(key func(*gin.Context) (string, error)) keyfunc.Func {
	if key == nil {
		panic("ginlock: Key: the function is nil")
	}
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*view](r)
		if !ok {
			return door.NativeElsewhere(nativeKey, r)
		}
		return httpdoor.NativeKey(&v.Visit, nativeKey, key, v.c)
	}
}
