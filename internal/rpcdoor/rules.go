package rpcdoor

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

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

// IdempotentRules say which methods answer a call once, by full method ("/shop.v1.Orders/Pay") or for all unary methods
// of a service ("/shop.v1.Orders/*"). Where both name a method, the rule of the full method counts. So a rule whose Key
// returns keyfunc.Skip takes one method out of those of "*". A stream has no answer that could be kept: "*" is not for
// the streams of a service, and a rule that names one is a mistake.
//
// The interceptors copy the IdempotentRules; later changes have no effect.
type IdempotentRules map[string]IdempotentRule

// An IdempotentRule says which calls are the same, and how their answer is kept.
type IdempotentRule struct {
	// Key derives from a call what a client has in common with itself when it asks again, and with nobody
	// else. It must not be nil.
	Key keyfunc.Func

	// Flight is how the answer is kept. It has no Fingerprint: see WithFingerprint.
	Flight lockmw.Flight
}

// With returns the rules of r and of code, as new Rules. Where both have one for a
// method, that of code counts. A "/shop.v1.Orders/*" of code replaces all rules that r
// has for that service and its methods:
//
//	rules, err := Annotated()
//	…
//	rules = rules.With(Rules{"/shop.v1.Orders/Pay": {…}})
func (r Rules) With(code Rules) Rules {
	both := make(Rules, len(r)+len(code))
	for name, rule := range r {
		service, _ := Cut(name)
		if _, replaced := code[service+wildcard]; !replaced {
			both[name] = rule
		}
	}
	maps.Copy(both, code)
	return both
}

// wildcard stands for all methods of a service.
const wildcard = "*"

// Cut parts "/shop.v1.Orders/Pay" into "/shop.v1.Orders/" and "Pay".
func Cut(name string) (service, method string) {
	i := strings.LastIndexByte(name, '/') + 1
	return name[:i], name[i:]
}

var errName = errors.New(`it must be named "/package.Service/Method" or "/package.Service/*"`)

// check finds the mistakes that need no descriptor.
func (r Rule) check(l *lockmw.Locker, name string) error {
	service, method := Cut(name)
	if len(service) < 2 || service[0] != '/' || !serviceName(service).IsValid() {
		return errName
	}
	if method != wildcard && !protoreflect.Name(method).IsValid() {
		return errName
	}
	if r.Key == nil {
		return errors.New("its Key is nil")
	}
	return l.Validate(r.Policy)
}

// serviceName makes "shop.v1.Orders" of "/shop.v1.Orders/".
func serviceName(service string) protoreflect.FullName {
	return protoreflect.FullName(service[1 : len(service)-1])
}

// fullMethod makes "/shop.v1.Orders/Pay" of a method.
func fullMethod(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
}
