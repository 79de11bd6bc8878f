package rpcdoor

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
)

// A view is what a key function sees of a call.
type view struct {
	call    Call
	door    *Door
	rule    *MethodRule
	message any   // nil: none has come yet
	early   bool  // the message was asked for before it came
	refused error // whatever the key function makes of it
}

// Context returns the call's context.
func (v *view) Context() context.Context { return v.call.Context }

// Method returns the full method.
func (v *view) Method() string { return v.call.Method }

// Route returns the full method.
func (v *view) Route() string { return v.call.Method }

// Header returns the header called name, in any case. A call that has it twice with other
// values is refused: some handlers take the first and some the last.
func (v *view) Header(name string) (string, bool) {
	values := v.call.Headers.Values(v.call.Context, name)
	if len(values) == 0 {
		return "", false
	}
	for _, other := range values[1:] {
		if other != values[0] && v.refused == nil {
			v.refused = door.Unread("header", name, door.ErrTwice)
		}
	}
	return values[0], true
}

// OddInteger has the Locker's log say that the key is made from an integer that has several
// spellings. Keyfunc calls it.
func (v *view) OddInteger(source, name string) {
	if v.door.Locker != nil && v.rule != nil {
		door.OddInteger(v.call.Context, v.door.Locker, v.rule.Policy, v.call.Method, source, name)
	}
}

// Param returns nothing: a call has no route parameters.
func (v *view) Param(string) (string, bool) { return "", false }

// Query returns nothing: a call has no query.
func (v *view) Query(string) (string, bool) { return "", false }

// Form returns nothing: a call has no form.
func (v *view) Form(string) (string, bool, error) { return "", false, nil }

// Cookie returns nothing: a call has no cookies.
func (v *view) Cookie(string) (string, bool, error) { return "", false, nil }

// Value returns what WithValues says.
func (v *view) Value(name string) (any, bool) {
	if v.door.values == nil {
		v.refused = fmt.Errorf("%w: %s", keyfunc.ErrMisuse, v.door.noValues(name))
		return nil, false
	}
	return v.door.values(v.call.Context, name)
}

// noValues is said of a key that reads a value without WithValues.
func (w Words) noValues(name string) string {
	return fmt.Sprintf("its Key reads the value %q, and a context does not tell values by name: "+
		"add %s.WithValues(func(ctx context.Context, name string) (any, bool) { … })", name, w.Package)
}

// tooEarly notes that the message was asked for before it came.
func (v *view) tooEarly() error {
	v.early = true
	return fmt.Errorf("%s: the stream's first message has not come yet", v.door.Package)
}

// Body returns the text of the field at path.
func (v *view) Body(path string) (string, bool, error) {
	if v.message == nil {
		return "", false, v.tooEarly()
	}
	m, err := v.reflected()
	if err != nil {
		return "", false, err
	}
	for i := range v.rule.fields {
		if f := &v.rule.fields[i]; f.path == path && f.of == m.Descriptor() {
			s, ok := f.text(m)
			return s, ok, nil
		}
	}
	f, err := newField(m.Descriptor(), path)
	if err != nil {
		return "", false, err
	}
	s, ok := f.text(m)
	return s, ok, nil
}

// Elements returns the elements of the repeated field at path.
func (v *view) Elements(path string, max int) ([]keyfunc.Element, bool, error) {
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

// reflected returns the message, which may come from an old code generator.
func (v *view) reflected() (protoreflect.Message, error) {
	switch m := v.message.(type) {
	case proto.Message:
		return m.ProtoReflect(), nil
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m).ProtoReflect(), nil
	}
	return nil, fmt.Errorf("%w: the message is a %T and no proto.Message", keyfunc.ErrMisuse, v.message)
}

// nativeKeys are what errors call a key function that Key has made. Each door takes those of
// both.
var nativeKeys = []string{"grpclock.Key", "connectlock.Key"}

// Key makes a key function of one that reads a call's context and message, for the package of
// that name. It panics if key is nil.
func Key(pkg string, key func(ctx context.Context, req any) (string, error)) keyfunc.Func {
	name := pkg + ".Key"
	if key == nil {
		panic(pkg + ": Key: the function is nil")
	}
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*view](r)
		if !ok {
			return door.NativeElsewhere(name, r)
		}
		if v.message == nil {
			return "", v.tooEarly()
		}
		s, err := key(v.call.Context, v.message)
		return door.NativeKey(name, s, err)
	}
}
