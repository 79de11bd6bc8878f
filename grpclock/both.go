package grpclock

import (
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/internal/rpcdoor"
)

// The constructors of the two interceptors. A server asks one for unary methods and
// the other for streams, so a rule for a stream that only the first has is no lock.
const (
	unaryConstructor  = "UnaryServerInterceptor"
	streamConstructor = "StreamServerInterceptor"
)

// given has the rules that interceptors have, as a Locker's instance, the constructor
// and the full method, or the rule's name where the service is not known. A server is made of all its interceptors before it serves the
// first call.
var given sync.Map

// missed has those that were reported because no interceptor has them: a program may
// make many interceptors of the same rules.
var missed sync.Map

func (i *interceptor) gives(constructor, method string) string {
	return i.Locker.Instance() + " " + constructor + " " + method
}

// give notes the rules that i has for methods known to this program, and for all methods of
// services that are not.
func (i *interceptor) give() {
	for _, name := range append(i.Methods(), i.Unknown()...) {
		given.Store(i.gives(i.Constructor, name), true)
	}
}

// checkOther reports the rules that are for the other kind of methods, and that no
// interceptor for those has: they run without the lock. Of a service that is not known
// nobody can tell of what kind its methods are.
func (i *interceptor) checkOther() {
	for _, method := range i.Methods() {
		if needs := constructorFor(method); needs != "" {
			i.checkHas(method, needs,
				"grpclock: a method runs without its lock, because its rule was not given to the other interceptor: give both the same rules")
		}
	}
	other, kind := streamConstructor, "streams"
	if i.Constructor == streamConstructor {
		other, kind = unaryConstructor, "unary methods"
	}
	for _, name := range i.Unknown() {
		i.checkHas(name, other,
			"grpclock: if the service, which this program does not know, has "+kind+", they run without their lock, because its rule was not given to the other interceptor: give both the same rules")
	}
}

// checkHas reports a rule, once, if the constructor that it needs was not given it.
func (i *interceptor) checkHas(rule, needs, report string) {
	key := i.gives(needs, rule)
	if _, has := given.Load(key); has {
		return
	}
	if _, again := missed.LoadOrStore(key, true); !again {
		i.Logger.Warn(report, "rule", rule, "needs", "grpclock."+needs)
	}
}

// constructorFor names the interceptor that a server asks for a method, if the method
// is known.
func constructorFor(method string) string {
	service, name := rpcdoor.Cut(method)
	methods := rpcdoor.MethodsOf(service)
	if methods == nil {
		return ""
	}
	m := methods.ByName(protoreflect.Name(name))
	switch {
	case m == nil:
		return ""
	case m.IsStreamingClient() || m.IsStreamingServer():
		return streamConstructor
	}
	return unaryConstructor
}
