package echodoor

import (
	"strings"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
)

// A view is what a key function sees of a request: the same as its handler.
type view[C Context] struct {
	httpdoor.Visit
	c       C
	routing Routing[C]
	answer  error // Echo's own, which is given without asking the handler
}

var (
	_ httpdoor.Routed      = (*view[Context])(nil)
	_ keyfunc.ParamRequest = (*view[Context])(nil)
)

// Unrouted is for Echo.Use and Group.Use, by which middleware runs for unknown paths and
// methods, too.
func (v *view[C]) Unrouted(err error) error {
	found := v.routing.Unrouted(v.c, err)
	if v.answer = found.Answer; v.answer != nil || found.Passes {
		return keyfunc.Skip
	}
	return err
}

// Route returns the route as it was registered, such as "/orders/:id".
func (v *view[C]) Route() string { return v.c.Path() }

// ParamNames returns the names of the parameters where keyfunc would find others in the
// route: it takes a brace for another router's parameter, and what stands behind a
// backslash in a parameter's name for a part of that.
func (v *view[C]) ParamNames() (names []string, known bool) {
	if !strings.ContainsAny(v.Route(), `{\`) {
		return nil, false
	}
	for i := 0; ; i++ {
		name, _, ok := v.routing.Param(v.c, i)
		if !ok {
			return names, true
		}
		names = append(names, name)
	}
}

// Param returns what c.Param does, decoded if Echo has not done that.
func (v *view[C]) Param(name string) (string, bool) {
	value, found := v.sentParam(name)
	if !found {
		return "", false
	}
	if name != "*" && strings.Contains(value, "/") {
		v.Refuse(door.Unread("param", name, errBeyond))
	}
	return v.RouteParam(name, value, v.routing.Escaped(v.c))
}

// Why no key may be made from a value, besides what is so in all doors.
var (
	errBeyond     = door.NewFault("took more than its segment of the path", "")
	errBodyAsWell = door.NewFault("is in the query of a request with a body", ", and c.Bind overwrites it by what is there")
	errParamAlone = door.NewFault("is missing in the query and a parameter of the route", ", from which c.Bind takes it")
)

// sentParam returns a parameter as handlers get it.
func (v *view[C]) sentParam(name string) (value string, found bool) {
	for i := 0; ; i++ {
		switch other, its, ok := v.routing.Param(v.c, i); {
		case !ok:
			return value, found
		case other != name:
		case !found:
			value, found = its, true
		case its != value: // c.Param returns the first of them, and c.Bind the last
			v.Refuse(door.Unread("param", name, httpdoor.ErrTwoParams))
		}
	}
}

// Query returns what c.QueryParam does. Where c.Bind reads the query it reads the path
// before it and the body after it, into the same fields.
func (v *view[C]) Query(name string) (string, bool) {
	v.CheckQuery(name)
	if v.routing.BindsQuery(v.Method()) && v.HasBody() {
		v.Refuse(door.Unread("query", name, errBodyAsWell))
	}
	if values := v.c.QueryParams()[name]; len(values) > 0 {
		return values[0], true
	}
	for i := 0; ; i++ {
		other, _, ok := v.routing.Param(v.c, i)
		if !ok {
			return "", false
		}
		if strings.EqualFold(other, name) {
			v.Refuse(door.Unread("query", name, errParamAlone))
		}
	}
}

// Value returns what c.Get does.
func (v *view[C]) Value(name string) (any, bool) {
	value := v.c.Get(name)
	return value, value != nil
}

// Key makes a key function of one that reads a context of Echo, for the door of that
// name. It panics if it is nil.
func Key[C Context](name string, key func(C) (string, error)) keyfunc.Func {
	if key == nil {
		panic(name + ": Key: the function is nil")
	}
	call := name + ".Key"
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*view[C]](r)
		if !ok {
			return door.NativeElsewhere(call, r)
		}
		return httpdoor.NativeKey(&v.Visit, call, key, v.c)
	}
}
