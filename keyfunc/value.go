package keyfunc

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
)

// stored returns the text of what earlier middleware stored, empty if it
// stored nothing.
func (v *value) stored(r Request) (string, error) {
	x, ok := r.Value(v.name)
	if !ok {
		return "", nil
	}
	s, ok := textOf(x)
	if !ok {
		// The cause is left out: an error of MarshalText may quote the value.
		return "", v.invalid(fmt.Sprintf("has no usable text: its type is %T", x))
	}
	return s, nil
}

// textOf returns the text by which x is told from other values, and whether
// there is one. Floats have none on purpose: 0.1+0.2 and 0.3 would be two.
func textOf(x any) (string, bool) {
	v := reflect.ValueOf(x)
	// Kinds come before methods, because a String method may show less than
	// the value: one that prints "***" would give everybody the same key.
	switch v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.FormatUint(v.Uint(), 10), true
	case reflect.Pointer:
		if v.IsNil() {
			return "", false // a method would panic
		}
	}
	switch x := x.(type) {
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		return string(text), err == nil
	case fmt.Stringer:
		return x.String(), true
	}
	// Bytes come after methods: a net.IP has two lengths for one address.
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return string(v.Bytes()), true
	}
	return "", false
}
