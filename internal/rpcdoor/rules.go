package rpcdoor

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Rules are rules by full method, or by service with a Wildcard in the place of the
// method.
type Rules map[string]Rule

// A Rule is a lock: what is locked, and how it is taken.
type Rule struct {
	Key    keyfunc.Func
	Policy lockmw.Policy
}

// RulesOf returns the rules that users write as a type of their own. It is nil if those
// are.
func RulesOf[R ~map[string]L, L ~struct {
	Key    keyfunc.Func
	Policy lockmw.Policy
}](given R) Rules {
	if given == nil {
		return nil
	}
	rules := make(Rules, len(given))
	for name, rule := range given {
		rules[name] = Rule(rule)
	}
	return rules
}

// Wildcard stands for all methods of a service.
const Wildcard = "*"

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
	if method != Wildcard && !protoreflect.Name(method).IsValid() {
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

// FullMethod makes "/shop.v1.Orders/Pay" of a method.
func FullMethod(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
}
