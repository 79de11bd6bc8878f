package connectlock

import (
	"context"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/keyfunc"
)

// Rules say which procedures run under which lock, by procedure ("/shop.v1.Orders/Pay")
// or for all of a service ("/shop.v1.Orders/*"), its streams too. They are the same type
// as grpclock.Rules, where more is said; a program that has no use for gRPC for Go need
// not compile that package.
//
// They are a map[string]Rule with one method. r.With(code) returns the rules of r and of
// code, as new Rules. Where both have one for a procedure, that of code counts. A
// "/shop.v1.Orders/*" of code replaces all rules that r has for that service and its
// procedures.
type Rules = rpcdoor.Rules

// A Rule is a lock: what is locked, and how it is taken. It is a struct with two fields:
//
//	type Rule struct {
//		// Key derives the key from a call. It must not be nil.
//		Key keyfunc.Func
//
//		// Policy is how the lock is taken and kept. Zero means one attempt.
//		Policy lockmw.Policy
//	}
type Rule = rpcdoor.Rule

// Annotated returns the rules that stand in .proto files, beside the methods, see
// grpclock.Annotated.
func Annotated(services ...string) (Rules, error) {
	return rpcdoor.Annotated(words("Annotated"), services...)
}

// Key makes a key function of one that reads a call: its context, in which earlier
// interceptors leave what they know, and its request message, see grpclock.Key. Key panics
// if it is nil.
func Key(key func(ctx context.Context, req any) (string, error)) keyfunc.Func {
	return rpcdoor.Key("connectlock", key)
}

// words are what texts call the function that finds a mistake.
func words(function string) rpcdoor.Words {
	return rpcdoor.Words{Package: "connectlock", Constructor: function, Call: "a Connect call"}
}
