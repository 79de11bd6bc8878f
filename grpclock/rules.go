package grpclock

import "github.com/lockmw/kit/internal/rpcdoor"

// Rules say which methods run under which lock, by full method ("/shop.v1.Orders/Pay") or
// for all methods of a service ("/shop.v1.Orders/*"), its streams too. Where both name a
// method, the rule of the full method counts. So you can take one method out of "*": give
// it a rule whose Key returns keyfunc.Skip. A method without a rule runs without a lock.
//
// The interceptors copy the Rules; later changes have no effect.
//
// Rules are the same type as connectlock.Rules: a map[string]Rule that has one method,
// With. r.With(code) returns the rules of r and of code, as new Rules. Where both have a
// rule for a method, that of code counts. A "/shop.v1.Orders/*" of code replaces all
// rules that r has for that service and its methods.
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

// Annotated returns the rules that stand beside the methods in .proto files:
//
//	import "lockmw/v1/lock.proto";
//
//	rpc Pay(PayRequest) returns (PayReply) {
//	  option (lockmw.v1.lock) = {
//	    key: "{body.order_id}"
//	    prefix: "order:"
//	    wait: {seconds: 2}
//	  };
//	}
//
// The fields are those of lockmw.Policy, and are described in the imported file. In a
// key, {value.tenant} is what the function of the interceptor's WithValues returns.
//
// The imported file lies below the folder of package lockmwv1, whose comment has the
// lines for protoc, buf and Bazel.
//
// services are full names ("shop.v1.Orders"). Without any, Annotated looks at all
// services that this program knows. A program knows a service if it imports the package
// that was generated from the service's .proto file.
//
// The error names these:
//
//   - every service that is not known;
//   - every service that was named and has no annotation at all, because its methods
//     would run without a lock;
//   - every method with an annotation that cannot work.
//
// It is also an error if no service was named and none has an annotation. After an error
// the Rules are nil.
func Annotated(services ...string) (Rules, error) {
	return rpcdoor.Annotated(words("Annotated"), services...)
}
