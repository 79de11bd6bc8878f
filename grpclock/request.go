package grpclock

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/internal/entry"
	"github.com/lockmw/kit/keyfunc"
)

// A view is what a key function sees of a call.
type view struct {
	ctx     context.Context
	method  string
	door    *door
	lock    *lock
	message any   // nil: none has come yet
	early   bool  // the message was asked for before it came
	misuse  error // a value was asked for, and there are none
}

// keys derives the keys of a call. message is nil if none has come yet; early tells
// that it was asked for all the same, and that the keys and the error mean nothing.
func (d *door) keys(ctx context.Context, method string, l *lock, message any) (keys keyfunc.Keys, early bool, err error) {
	v := &view{ctx: ctx, method: method, door: d, lock: l, message: message}
	keys, err = keyfunc.KeysOf(l.Key, v)
	if v.misuse != nil && !errors.Is(err, keyfunc.Skip) {
		return keyfunc.Keys{}, v.early, v.misuse
	}
	return keys, v.early, err
}

// Context returns the call's context.
func (v *view) Context() context.Context { return v.ctx }

// Method returns the full method.
func (v *view) Method() string { return v.method }

// Route returns the full method.
func (v *view) Route() string { return v.method }

// Header returns the first value of the incoming metadata called name, in any
// case.
func (v *view) Header(name string) (string, bool) {
	if values := metadata.ValueFromIncomingContext(v.ctx, name); len(values) > 0 {
		return values[0], true
	}
	return "", false
}

// Param returns nothing: a gRPC call has no route parameters.
func (v *view) Param(string) (string, bool) { return "", false }

// Query returns nothing: a gRPC call has no query.
func (v *view) Query(string) (string, bool) { return "", false }

// Form returns nothing: a gRPC call has no form.
func (v *view) Form(string) (string, bool, error) { return "", false, nil }

// Cookie returns nothing: a gRPC call has no cookies.
func (v *view) Cookie(string) (string, bool, error) { return "", false, nil }

// Value returns what WithValues says.
func (v *view) Value(name string) (any, bool) {
	if v.door.values == nil {
		v.misuse = fmt.Errorf("%w: %s", keyfunc.ErrMisuse, noValues(name))
		return nil, false
	}
	return v.door.values(v.ctx, name)
}

// noValues is said of a key that reads a value without WithValues.
func noValues(name string) string {
	return fmt.Sprintf("its Key reads the value %q, and a context does not tell values by name: "+
		"add grpclock.WithValues(func(ctx context.Context, name string) (any, bool) { … })", name)
}

var errEarly = errors.New("grpclock: the stream's first message has not come yet")

// Body returns the text of the field at path.
func (v *view) Body(path string) (string, bool, error) {
	if v.message == nil {
		v.early = true
		return "", false, errEarly
	}
	m, err := reflected(v.message)
	if err != nil {
		return "", false, err
	}
	for i := range v.lock.fields {
		if f := &v.lock.fields[i]; f.path == path && f.of == m.Descriptor() {
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

// reflected returns the message, which may come from an old code generator.
func reflected(message any) (protoreflect.Message, error) {
	switch m := message.(type) {
	case proto.Message:
		return m.ProtoReflect(), nil
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m).ProtoReflect(), nil
	}
	return nil, fmt.Errorf("grpclock: the message is a %T and no proto.Message", message)
}

const nativeKey = "grpclock.Key" // for errors

// Key makes a key function of one that reads a call: its context, in which earlier
// interceptors leave what they know, and its request message. It works in grpclock
// only. In a stream it is called with the first message, see
// StreamServerInterceptor. What it returns is escaped where a key may not hold a
// character, as in keyfunc.Value; an empty string is keyfunc.ErrMissing. The function
// must escape values that it joins itself, or leave that to keyfunc.Join. Key panics
// if it is nil.
func Key(key func(ctx context.Context, req any) (string, error)) keyfunc.Func {
	if key == nil {
		panic("grpclock: Key: the function is nil")
	}
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*view](r)
		if !ok {
			return entry.NativeElsewhere(nativeKey, r)
		}
		if v.message == nil {
			v.early = true
			return "", errEarly
		}
		s, err := key(v.ctx, v.message)
		return entry.NativeKey(nativeKey, s, err)
	}
}
