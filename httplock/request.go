package httplock

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
)

// A view is what a key function sees of a request: the same as its handler.
type view struct {
	httpdoor.Visit
	handler *handler
	query   url.Values        // once it is asked for
	params  map[string]string // of WithParams, once they are asked for; not nil
	read    []param           // the parameters that were read with r.PathValue
	few     [2]param          // where the first of them are
}

type param struct{ name, value string }

var (
	_ keyfunc.ParamRequest = (*view)(nil)
	_ httpdoor.Routed      = (*view)(nil)
)

// Route returns the pattern as it was registered, such as
// "POST /orders/{id}". It is empty outside of the mux.
func (v *view) Route() string { return v.Outer().Pattern }

// Param returns what r.PathValue does, or WithParams says, decoded, if handlers cannot differ in
// what that names.
func (v *view) Param(name string) (string, bool) {
	var value string
	if v.handler.params != nil {
		value = v.ownParams()[name]
	} else {
		value = v.Outer().PathValue(name)
		v.note(param{name, value})
	}
	return v.RouteParam(name, value, false)
}

// note keeps what was read, once for each name.
func (v *view) note(p param) {
	if slices.ContainsFunc(v.read, func(q param) bool { return q.name == p.name }) {
		return
	}
	if v.read == nil {
		v.read = v.few[:0]
	}
	v.read = append(v.read, p)
}

// checkInner is called when the handler has returned. A router behind the middleware sets the parameters of
// its route in the handler's request. If one has the name of another that the key was made of, the handler has
// worked on something else than was locked, and only now can that be seen.
func (v *view) checkInner() {
	for _, p := range v.read {
		if inner := v.Inner().PathValue(p.name); p.value != "" && inner != "" && inner != p.value {
			v.Misused(fmt.Errorf("%w: httplock: the key is made of the parameter %q of route %q, and route %q behind it has another parameter "+
				"of that name, which its handler sees: give one of them another name, or put the middleware on the inner route",
				keyfunc.ErrMisuse, p.name, v.Route(), v.Inner().Pattern))
			return
		}
	}
}

// ParamNames returns the names of the parameters that WithParams says, in their
// order. Without it, the pattern tells them.
func (v *view) ParamNames() ([]string, bool) {
	if v.handler.params == nil {
		return nil, false
	}
	return slices.Sorted(maps.Keys(v.ownParams())), true
}

func (v *view) ownParams() map[string]string {
	if v.params == nil {
		if v.params = v.handler.params(v.Outer()); v.params == nil {
			v.params = map[string]string{}
		}
	}
	return v.params
}

// Unrouted looks whether the middleware stands around a mux. That says itself that
// it has no handler for a request. Other routers cannot be asked.
func (v *view) Unrouted(err error) error {
	needsRoute := errors.Is(err, keyfunc.ErrMisuse) && errors.Is(err, keyfunc.ErrMissing)
	if mux, ok := v.handler.next.(*http.ServeMux); ok {
		_, pattern := mux.Handler(v.Outer())
		switch {
		case pattern == "":
			return keyfunc.Skip
		case needsRoute:
			return fmt.Errorf("%w; the mux behind the middleware has %q for this request", err, pattern)
		}
		return err
	}
	if needsRoute && v.Route() == "" && v.handler.params == nil {
		return fmt.Errorf("%w; for parameters of a router that does not set r.PathValue there is httplock.WithParams", err)
	}
	return err
}

// Query returns what r.URL.Query().Get does.
func (v *view) Query(name string) (string, bool) {
	v.CheckQuery(name)
	if v.query == nil {
		v.query = v.Outer().URL.Query()
	}
	if values := v.query[name]; len(values) > 0 {
		return values[0], true
	}
	return "", false
}

// Value returns what WithValues says.
func (v *view) Value(name string) (any, bool) {
	if v.handler.values == nil {
		v.Refuse(fmt.Errorf("%w: %s", keyfunc.ErrMisuse, noValues(name)))
		return nil, false
	}
	return v.handler.values(v.Outer(), name)
}

// noValues is said of a key that reads a value without WithValues.
func noValues(name string) string {
	return fmt.Sprintf("the key reads the value %q, and net/http has no place where middleware leaves values: "+
		"add httplock.WithValues(func(r *http.Request, name string) (any, bool) { … })", name)
}

// checkValues panics if key reads a value, and there are none.
func (o *options) checkValues(key keyfunc.Func) {
	if o.values != nil {
		return
	}
	sample := o.Sample(key)
	if len(sample.Values) > 0 {
		o.Panic(noValues(sample.Values[0]))
	}
}

const nativeKey = "httplock.Key" // for errors

// Key makes a key function of a function that reads a request. The result works in
// httplock only. The function may read the body, up to WithBodyLimit; the handler still
// gets all of it, from its beginning. If the function reads further, or the body cannot
// be read, the request is refused with 413 or 400, whatever the function returns.
//
// In what the function returns, characters that a key may not hold are escaped, as in
// keyfunc.Value. An empty string is keyfunc.ErrMissing. If the function joins several
// values, it must escape them itself, or leave that to keyfunc.Join. Key panics if it is
// given nil.
func Key(key func(*http.Request) (string, error)) keyfunc.Func {
	if key == nil {
		panic("httplock: Key: the function is nil")
	}
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*view](r)
		if !ok {
			return door.NativeElsewhere(nativeKey, r)
		}
		return httpdoor.NativeKey(&v.Visit, nativeKey, key, v.Outer())
	}
}
