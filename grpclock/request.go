package grpclock

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A view is what a key function sees of a call.
type view struct {
	ctx     context.Context
	method  string
	lock    *lock
	message any  // nil: none has come yet
	early   bool // a field was asked for before the message came
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

// Value returns nothing: what earlier interceptors know is in the context.
func (v *view) Value(string) (any, bool) { return nil, false }

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
