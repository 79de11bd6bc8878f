package funclock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/lockmw/kit/keyfunc"
)

// A Value is what a placeholder of a key stands for in one call. Its text is what keyfunc
// makes of the same Go value. The zero Value is missing. Generated code passes it if
// there is a nil on the way to the value.
type Value struct {
	text text
	// more is nil where text is all there is. Otherwise it is a failure, elements, or
	// what keyfunc is to make a text of.
	more any
}

// A text is a value's text. A pointer to one fits into an interface without a copy.
type text string

// String returns the text.
func (t *text) String() string { return string(*t) }

type failure struct{ err error }

type elements struct {
	n  int
	at func(i int) Value
}

// The number types, and what is made of them.
type (
	signed interface {
		~int | ~int8 | ~int16 | ~int32 | ~int64
	}
	unsigned interface {
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
	}
)

// String returns the value of a string. An empty one is missing.
func String[T ~string](s T) Value { return Value{text: text(s)} }

// Int returns the value of an integer.
func Int[T signed](n T) Value { return Value{text: text(strconv.FormatInt(int64(n), 10))} }

// Uint returns the value of an unsigned integer.
func Uint[T unsigned](n T) Value { return Value{text: text(strconv.FormatUint(uint64(n), 10))} }

// Bool returns the value of a bool.
func Bool[T ~bool](b T) Value { return Value{text: text(strconv.FormatBool(bool(b)))} }

// Of returns the value of anything that keyfunc.Value takes: bytes, and types that
// implement encoding.TextMarshaler or fmt.Stringer. A nil is missing.
func Of(x any) Value { return Value{more: x} }

// Failed returns the value of a function in a key that has returned err. If err is nil,
// the value is missing.
func Failed(err error) Value {
	if err == nil {
		return Value{}
	}
	return Value{more: failure{err}}
}

// Each returns the value of a list of n elements: at returns element i, from 0 to n-1. It
// is for names that end in "...".
func Each(n int, at func(i int) Value) Value { return Value{more: elements{n, at}} }

// each is the end of the name of a list.
const each = "..."

// maxElements bounds what one call can lock at once, as keyfunc.All does.
const maxElements = 64

// forEach returns a Func that names a key for each element of the list that has this
// name and is value i of the call: all or none.
func forEach(name string, i int, key keyfunc.Func) keyfunc.Func {
	return func(r keyfunc.Request) (string, error) {
		c, _ := keyfunc.As[*request](r) // Lock.Key asks with nothing else
		list, _ := c.values[i].more.(elements)
		switch {
		case list.n == 0:
			return "", fmt.Errorf("%w: value %q: it has no elements", keyfunc.ErrMissing, name)
		case list.n > maxElements:
			return "", fmt.Errorf("%w: value %q has more than %d elements", keyfunc.ErrInvalidValue, name, maxElements)
		}
		keys := make([]keyfunc.Func, list.n)
		for n := range keys {
			keys[n] = func(keyfunc.Request) (string, error) {
				of := &request{lock: c.lock, values: slices.Clone(c.values)}
				of.values[i] = list.at(n)
				if failed, ok := of.values[i].more.(failure); ok {
					return "", failed.err
				}
				return key(of)
			}
		}
		return keyfunc.All(keys...)(r)
	}
}

// A request is how a key sees the values of a call.
type request struct {
	lock   *Lock
	values []Value
}

// requests are those that no call uses now. A key keeps none beyond its return, because
// it is made of nothing but keyfunc's templates.
var requests = sync.Pool{New: func() any { return new(request) }}

var _ keyfunc.Request = (*request)(nil)

// Value returns the value of that name.
func (r *request) Value(name string) (any, bool) {
	v := &r.values[slices.Index(r.lock.values, name)]
	if v.more != nil {
		return v.more, true
	}
	return &v.text, true
}

// Method returns the lock's name.
func (r *request) Method() string { return r.lock.name }

// The other sources of keyfunc are those of requests: a function has none, and no
// directive can name them.

// Context returns an empty context.
func (r *request) Context() context.Context { return context.Background() }

// Route returns nothing.
func (r *request) Route() string { return "" }

// Param returns nothing.
func (r *request) Param(string) (string, bool) { return "", false }

// Query returns nothing.
func (r *request) Query(string) (string, bool) { return "", false }

// Header returns nothing.
func (r *request) Header(string) (string, bool) { return "", false }

// Body returns nothing.
func (r *request) Body(string) (string, bool, error) { return "", false, nil }
