package grpclock

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
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

func (d *door) gives(constructor, method string) string {
	return d.locker.Instance() + " " + constructor + " " + method
}

// give notes the rules that d has for methods known to this program.
func (d *door) give() {
	for method := range d.exact {
		given.Store(d.gives(d.constructor, method), true)
	}
}

// checkOther reports the rules that are for the other kind of methods, and that no
// interceptor for those has: they run without the lock.
func (d *door) checkOther() {
	for _, method := range slices.Sorted(maps.Keys(d.exact)) {
		needs := constructorFor(method)
		if needs == "" || needs == d.constructor {
			continue
		}
		key := d.gives(needs, method)
		if _, has := given.Load(key); has {
			continue
		}
		if _, again := warned.LoadOrStore(key, true); !again {
			d.log.Warn("grpclock: a method runs without its lock, because its rule was not given to the other interceptor: give both the same rules",
				"rule", method, "needs", "grpclock."+needs)
		}
	}
}

// constructorFor names the interceptor that a server asks for a method, if the method
// is known.
func constructorFor(method string) string {
	service, name := cut(method)
	methods := methodsOf(service)
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
