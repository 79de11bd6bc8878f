package httpdoor

import (
	"strings"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
)

var errNotArray = door.NewFault("is no array", "")

// Elements returns the elements of the array at path of the JSON body, or the
// first max+1 of them. It is refused like a field, see Body.
func (v *Visit) Elements(path string, max int) ([]keyfunc.Element, bool, error) {
	raw, ok, err := v.body.elements(v.outer, v.door.bodyLimit, path, max)
	if err == nil {
		err = v.checkPlaces(path, ok)
	}
	if err != nil {
		return nil, false, err
	}
	list := make([]keyfunc.Element, len(raw))
	for i, data := range raw {
		list[i] = func(path string) (string, bool, error) {
			if path == "" {
				return scalar(data)
			}
			return field(data, path)
		}
	}
	return list, ok, nil
}

// elements returns what stands at path in data, which checkJSON has passed, as
// the texts of the array's elements, up to max+1 of them. Path and null are those
// of field. A name that is there twice is an error: of the elements of two arrays
// some decoders make one.
func elements(data []byte, path string, max int) (list [][]byte, ok bool, err error) {
	name, rest, deep := strings.Cut(path, ".")
	i, err := firstMember(data)
	if err != nil {
		return nil, false, err
	}
	array, i, err := member(data, i, name)
	if err != nil {
		return nil, false, err
	}
	switch again, _, err := member(data, i, name); {
	case err != nil:
		return nil, false, err
	case again != nil:
		return nil, false, door.ErrTwice
	case array == nil || array[0] == 'n':
		return nil, false, nil
	case deep:
		return elements(array, rest, max)
	case array[0] != '[':
		return nil, false, errNotArray
	}
	for i = skipSpace(array, 1); array[i] != ']' && len(list) <= max; {
		end := valueEnd(array, i)
		list = append(list, array[i:end])
		if i = skipSpace(array, end); array[i] == ',' {
			i = skipSpace(array, i+1)
		}
	}
	return list, true, nil
}
