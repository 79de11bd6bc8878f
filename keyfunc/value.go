package keyfunc

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// stored returns the text of what earlier middleware stored, empty if it stored
// nothing, or nil.
func (v *value) stored(r Request) (string, error) {
	x, ok := r.Value(v.name)
	if !ok || x == nil {
		return "", nil
	}
	s, err := textOf(x)
	if err == nil {
		return s, nil
	}
	// The cause is left out: an error of MarshalText may quote the value.
	refusal := fmt.Sprintf("has no usable text: its type is %T", x)
	if why, textless := errors.AsType[textless](err); textless {
		return "", misused(v.unusable(refusal + string(why))) // which type is stored is the program's affair
	}
	return "", v.unusable(refusal)
}

// textless says that no value of a type has a text, and why where that is not plain.
type textless string

func (textless) Error() string { return "no text" }

// textOf returns the text by which x, which is not nil, is told from other values;
// of a nil pointer that is empty. The error is a textless, or that of MarshalText.
// Floats have no text on purpose: 0.1+0.2 and 0.3 would be two.
func textOf(x any) (string, error) {
	v := reflect.ValueOf(x)
	// Kinds come before methods, because a String method may show less than
	// the value: one that prints "***" would give everybody the same key.
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.FormatUint(v.Uint(), 10), nil
	}
	if why := refused(v.Type()); why != "" {
		return "", why
	}
	absent := v.Kind() == reflect.Pointer && v.IsNil() // a method might panic
	switch x := x.(type) {
	case encoding.TextMarshaler:
		if absent {
			return "", nil
		}
		text, err := x.MarshalText()
		return string(text), err
	case fmt.Stringer:
		if absent {
			return "", nil
		}
		return x.String(), nil
	}
	// Bytes come after methods: a net.IP has two lengths for one address.
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return string(v.Bytes()), nil
	}
	return "", textless("")
}
