package httplock

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
)

// A view is what a key function sees of a request: the same as its handler.
type view struct {
	httpdoor.Visit
	query url.Values // once it is asked for
}

// Route returns the pattern as it was registered, such as
// "POST /orders/{id}". It is empty outside of the mux.
func (v *view) Route() string { return v.Outer().Pattern }

// Param returns what r.PathValue does.
func (v *view) Param(name string) (string, bool) {
	value := v.Outer().PathValue(name)
	return value, value != ""
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

// Value returns nothing: net/http has no place where middleware leaves values
// by name.
func (v *view) Value(string) (any, bool) { return nil, false }

var errNotHTTP = errors.New("httplock: a function from httplock.Key is used in another door")

// Key makes a key function of one that reads a request. It works in httplock
// only. The function must not read the body. What it returns is escaped where a
// key may not hold a character, as in keyfunc.Const; an empty string is
// keyfunc.ErrMissing. The function must escape values that it joins itself, or
// leave that to keyfunc.Join. Key panics if it is nil.
func Key(key func(*http.Request) (string, error)) keyfunc.Func {
	if key == nil {
		panic("httplock: Key: the function is nil")
	}
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*view](r)
		if !ok {
			return "", errNotHTTP
		}
		s, err := key(v.Outer())
		return httpdoor.NativeKey("httplock.Key", s, err)
	}
}
