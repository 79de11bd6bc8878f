package grpclock

import (
	"maps"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Rules say which methods run under which lock, by full method ("/shop.v1.Orders/Pay")
// or for all methods of a service ("/shop.v1.Orders/*"), its streams too. Where both
// name a method, the rule of the full method counts. So a rule whose Key returns
// keyfunc.Skip takes one method out of those of "*". A method without a rule runs
// without a lock.
//
// The interceptors copy the Rules; later changes have no effect.
type Rules map[string]Rule

// A Rule is a lock: what is locked, and how it is taken.
type Rule struct {
	// Key derives the key from a call. It must not be nil.
	Key keyfunc.Func

	// Policy is how the lock is taken and kept. Zero means one attempt.
	Policy lockmw.Policy
}

// With returns the rules of r and of code, as new Rules. Where both have one for a
// method, that of code counts. A "/shop.v1.Orders/*" of code replaces all rules that r
// has for that service and its methods:
//
//	rules, err := grpclock.Annotated()
//	…
//	rules = rules.With(grpclock.Rules{"/shop.v1.Orders/Pay": {…}})
func (r Rules) With(code Rules) Rules {
	both := make(Rules, len(r)+len(code))
	for name, rule := range r {
		service, _ := rpcdoor.Cut(name)
		if _, replaced := code[service+rpcdoor.Wildcard]; !replaced {
			both[name] = rule
		}
	}
	maps.Copy(both, code)
	return both
}
