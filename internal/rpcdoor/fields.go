package rpcdoor

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/keyfunc"
)

// A field is a path such as "customer.id", found in a message's descriptor.
type field struct {
	path string
	of   protoreflect.MessageDescriptor
	on   []protoreflect.FieldDescriptor // messages on the way
	leaf protoreflect.FieldDescriptor
}

// newField finds the field at path: names as in the .proto file or in JSON,
// joined by dots. The error says that there is none, or none that has a
// definite text.
func newField(of protoreflect.MessageDescriptor, path string) (field, error) {
	f, err := pathIn(of, path)
	if err != nil {
		return field{}, err
	}
	if what, bad := textless(f.leaf); bad {
		return field{}, fmt.Errorf("field %q: %s is a %s, which has no definite text", path, f.leaf.FullName(), what)
	}
	return f, nil
}

// pathIn finds the field at path, of whatever kind.
func pathIn(of protoreflect.MessageDescriptor, path string) (field, error) {
	f := field{path: path, of: of}
	message, rest := of, path
	for {
		name, after, more := strings.Cut(rest, ".")
		found, err := fieldOf(message, name)
		if err != nil {
			return field{}, fmt.Errorf("field %q: %w", path, err)
		}
		if !more {
			f.leaf = found
			break
		}
		if message = found.Message(); message == nil || found.Cardinality() == protoreflect.Repeated {
			return field{}, fmt.Errorf("field %q: %s is not one message, it has no fields", path, found.FullName())
		}
		f.on, rest = append(f.on, found), after
	}
	return f, nil
}

func fieldOf(message protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	inProto, inJSON := message.Fields().ByName(protoreflect.Name(name)), message.Fields().ByJSONName(name)
	switch {
	case inProto == nil && inJSON == nil:
		return nil, fmt.Errorf("%s has no field %q", message.FullName(), name)
	case inProto == nil:
		return inJSON, nil
	case inJSON != nil && inJSON != inProto:
		return nil, fmt.Errorf("%s has two fields %q, one by that name and one in JSON", message.FullName(), name)
	}
	return inProto, nil
}

// textless tells what kind of field it is that cannot be part of a key. Floats
// cannot on purpose: 0.1+0.2 and 0.3 would be two keys.
func textless(f protoreflect.FieldDescriptor) (what string, bad bool) {
	switch {
	case f.IsMap():
		return "map", true
	case f.IsList():
		return "list", true
	}
	return textlessKind(f)
}

// textlessKind tells that of a field or of the elements of a list.
func textlessKind(f protoreflect.FieldDescriptor) (what string, bad bool) {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.FloatKind, protoreflect.DoubleKind:
		return f.Kind().String(), true
	default:
		return "", false
	}
}

// text returns the field's text in m, and whether it has one. It is what the handler sees:
//
//   - A scalar without presence is always set, its zero is a value.
//   - A field that is not set, itself or a message on the way, is its default, where the .proto file
//     (proto2 and editions) gives it another one than zero: that is what a chain of getters returns. To
//     a handler that looks at presence the two requests differ, and it is locked too much, not too little.
//   - Otherwise a field that is not set has no text.
func (f *field) text(m protoreflect.Message) (string, bool) {
	onTheWay := true
	for _, step := range f.on {
		onTheWay = onTheWay && m.Has(step)
		m = m.Get(step).Message() // empty and not to be written to, if it is not set
	}
	if onTheWay && (!f.leaf.HasPresence() || m.Has(f.leaf)) {
		return textOf(f.leaf, m.Get(f.leaf)), true
	}
	if isZero(f.leaf, f.leaf.Default()) {
		return "", false
	}
	return textOf(f.leaf, f.leaf.Default()), true
}

// isZero reports whether a field's value is the zero of its kind.
func isZero(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	switch text := textOf(f, value); f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return text == ""
	case protoreflect.BoolKind:
		return text == "false"
	default:
		return text == "0"
	}
}

// textOf returns the text of a field's value, or of one of the values of a list.
func textOf(f protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.StringKind:
		return value.String()
	case protoreflect.BytesKind:
		return string(value.Bytes())
	case protoreflect.BoolKind:
		return strconv.FormatBool(value.Bool())
	case protoreflect.EnumKind:
		return strconv.FormatInt(int64(value.Enum()), 10)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.FormatUint(value.Uint(), 10)
	default: // signed integers; textless has refused the rest
		return strconv.FormatInt(value.Int(), 10)
	}
}

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
