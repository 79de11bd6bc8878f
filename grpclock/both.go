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
// and the full method. A server is made of all its interceptors before it serves the
// first call.
var given sync.Map

// missed has those that were reported because no interceptor has them: a program may
// make many interceptors of the same rules.
var missed sync.Map

func (i *interceptor) gives(constructor, method string) string {
	return i.Locker.Instance() + " " + constructor + " " + method
}

// give notes the rules that i has for methods known to this program.
func (i *interceptor) give() {
	for _, method := range i.Methods() {
		given.Store(i.gives(i.Constructor, method), true)
	}
}

// checkOther reports the rules that are for the other kind of methods, and that no
// interceptor for those has: they run without the lock.
func (i *interceptor) checkOther() {
	for _, method := range i.Methods() {
		needs := constructorFor(method)
		if needs == "" || needs == i.Constructor {
			continue
		}
		key := i.gives(needs, method)
		if _, has := given.Load(key); has {
			continue
		}
		if _, again := missed.LoadOrStore(key, true); !again {
			i.Logger.Warn("grpclock: a method runs without its lock, because its rule was not given to the other interceptor: give both the same rules",
				"rule", method, "needs", "grpclock."+needs)
		}
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
