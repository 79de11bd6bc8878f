package keyfunc

import (
	"fmt"
	"strings"
)

// ArrayRequest is a [Request] of a call whose body may contain arrays. All middlewares
// implement it.
type ArrayRequest interface {
	Request
	// Elements returns the elements of the array at path in the body, where
	// [Request.Body] finds it; in gRPC, those of the repeated field. It may leave
	// out all elements after the first max+1. An error means the same as in Body,
	// or that there is no array at path.
	Elements(path string, max int) ([]Element, bool, error)
}

// Element returns the field at a path within an element, as [Request.Body] does within
// the body. For the empty path it returns the element itself.
type Element func(path string) (string, bool, error)

// Each returns a Func that names one lock for each element of an array in the body.
// They are taken together, as in [All]. array is "body." followed by the array's
// path. key is called for one element after another, with a Request in which the
// array's path means that element:
//
//	keyfunc.Each("body.ids", keyfunc.MustParse("order:{body.ids}"))         // {"ids": [1, 2]}
//	keyfunc.Each("body.items", keyfunc.MustParse("stock:{body.items.sku}")) // {"items": [{"sku": "a"}]}
//
// All other parts of the request stay as they are. Two equal keys count as one. An
// element whose key is [Optional] and missing is left out. The errors are:
//
//   - [ErrMissing] if the array is missing or empty, or if no key is left;
//   - [ErrInvalidValue] for more than 64 elements;
//   - [ErrMisuse] if key does not read its element, because all elements would have
//     the same key, and for an Each of an array inside the elements of another
//     Each;
//   - what [ArrayRequest] returns, wrapped;
//   - the first error of key, including [Skip], as it is.
//
// Each panics if array does not begin with "body." or ends there, if a name in its
// path is empty, and if key is nil.
func Each(array string, key Func) Func {
	path, inBody := strings.CutPrefix(array, string(sourceBody)+".")
	switch {
	case !inBody || path == "":
		panic(fmt.Sprintf(`keyfunc: Each of %q: it takes an array in the body, as in Each("body.ids", …)`, array))
	case key == nil:
		panic(fmt.Sprintf("keyfunc: Each of %q: the key function is nil", array))
	}
	if _, reason := badName(sourceBody, path); reason != "" {
		panic(fmt.Sprintf("keyfunc: Each of %q: %s", array, reason))
	}
	v := value{source: sourceBody, name: path}
	return func(r Request) (string, error) {
		elements, err := v.elements(r)
		if err != nil {
			return "", err
		}
		var list []string
		for i, field := range elements {
			of := &element{Request: r, path: path, field: field}
			keys, err := KeysOf(key, of)
			if isAbsent(err) {
				continue
			}
			if err != nil {
				return "", err
			}
			if key, one := keys.One(); one && key == "" {
				return "", fmt.Errorf("%w: key of element %d of %s", ErrMissing, i+1, v.label())
			}
			if !of.asked {
				return "", misused(v.unusable(fmt.Sprintf("is taken apart by Each, whose key does not read {body.%s}: all elements would take one lock", path)))
			}
			list = keys.addTo(list)
		}
		return named(list, "Each")
	}
}

// elements returns the elements of the array that v is.
func (v *value) elements(r Request) ([]Element, error) {
	arrays, ok := As[ArrayRequest](r)
	if !ok {
		return nil, fmt.Errorf("keyfunc: %s: a %T has no arrays", v.label(), r)
	}
	elements, ok, err := arrays.Elements(v.name, maxKeys)
	outer, nested := As[*element](r)
	switch {
	case nested && outer.has(v.name):
		return nil, misused(v.unusable(fmt.Sprintf("is inside body %q, which another Each takes apart: Each takes no arrays of arrays", outer.path)))
	case err != nil:
		return nil, v.unread(err)
	case !ok || len(elements) == 0:
		return nil, v.missing(r)
	case len(elements) > maxKeys:
		return nil, v.invalid(fmt.Sprintf("has more than %d elements", maxKeys))
	}
	return elements, nil
}

// An element is a Request in which the path of an array means one of its
// elements.
type element struct {
	Request

	path  string
	field Element
	asked bool
}

// Unwrap returns the Request of the whole call.
func (e *element) Unwrap() Request { return e.Request }

// Body returns a field of the element, or of the body around the array.
func (e *element) Body(path string) (string, bool, error) {
	if !e.has(path) {
		return e.Request.Body(path)
	}
	e.asked = true
	return e.field(strings.TrimPrefix(strings.TrimPrefix(path, e.path), "."))
}

// has reports whether a path of the body leads to the element, or into it.
func (e *element) has(path string) bool {
	inside, ok := strings.CutPrefix(path, e.path)
	return ok && (inside == "" || inside[0] == '.')
}
