package rpcdoor

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/keyfunc"
)

// newList finds the repeated field at path, whose elements keyfunc.Each takes.
func newList(of protoreflect.MessageDescriptor, path string) (field, error) {
	f, err := pathIn(of, path)
	if err == nil && !f.leaf.IsList() {
		return field{}, fmt.Errorf("field %q: %s is not repeated, it has no elements", path, f.leaf.FullName())
	}
	return f, err
}

// checkElement returns an error if the elements of a list have no field at path
// that has a definite text. The empty path is the element itself.
func (f *field) checkElement(path string) error {
	if path != "" {
		if f.leaf.Message() == nil {
			return fmt.Errorf("field %q: its elements are no messages, they have no field %q", f.path, path)
		}
		_, err := newField(f.leaf.Message(), path)
		return err
	}
	if what, bad := textlessKind(f.leaf); bad {
		return fmt.Errorf("field %q: its elements are of kind %s, which has no definite text; name a field of them", f.path, what)
	}
	return nil
}

// elements returns the elements of the list in m, at most max+1.
func (f *field) elements(m protoreflect.Message, max int) []keyfunc.Element {
	for _, step := range f.on {
		if !m.Has(step) {
			return nil
		}
		m = m.Get(step).Message()
	}
	values := m.Get(f.leaf).List()
	list := make([]keyfunc.Element, min(values.Len(), max+1))
	for i := range list {
		list[i] = func(path string) (string, bool, error) {
			if err := f.checkElement(path); err != nil {
				return "", false, err
			}
			if path == "" {
				return textOf(f.leaf, values.Get(i)), true, nil
			}
			of, err := newField(f.leaf.Message(), path)
			if err != nil {
				return "", false, err
			}
			text, ok := of.text(values.Get(i).Message())
			return text, ok, nil
		}
	}
	return list
}

// Elements returns the elements of the repeated field at path.
func (v *View) Elements(path string, max int) ([]keyfunc.Element, bool, error) {
	if v.message == nil {
		return nil, false, v.tooEarly()
	}
	m, err := v.reflected()
	if err != nil {
		return nil, false, err
	}
	f, err := newList(m.Descriptor(), path)
	if err != nil {
		return nil, false, err
	}
	return f.elements(m, max), true, nil
}
