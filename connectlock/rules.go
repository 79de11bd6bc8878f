package connectlock

import (
	"context"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/keyfunc"
)

// Rules say which procedures run under which lock, by procedure ("/shop.v1.Orders/Pay")
// or for all procedures of a service ("/shop.v1.Orders/*"), its streams too. They are the
// same type as grpclock.Rules, whose comment says more. A program that does not use gRPC
// for Go need not compile that package.
//
// Rules are a map[string]Rule that has one method, With. r.With(code) returns the rules
// of r and of code, as new Rules. Where both have a rule for a procedure, that of code
// counts. A "/shop.v1.Orders/*" of code replaces all rules that r has for that service
// and its procedures.
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

// Annotated returns the rules that stand beside the methods in .proto files: see
// grpclock.Annotated.
func Annotated(services ...string) (Rules, error) {
	return rpcdoor.Annotated(words("Annotated"), services...)
}

// Key makes a key function of a function that reads a call: its context, in which earlier
// interceptors leave what they know, and its request message. For what the function may
// return, see grpclock.Key. Key panics if it is given nil.
func Key(key func(ctx context.Context, req any) (string, error)) keyfunc.Func {
	return rpcdoor.Key("connectlock", key)
}

// words are what texts call the function that finds a mistake.
func words(function string) rpcdoor.Words {
	return rpcdoor.Words{Package: "connectlock", Constructor: function, Call: "a Connect call"}
}
