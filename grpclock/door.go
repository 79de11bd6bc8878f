package grpclock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lockmw/kit/internal/entry"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A door is what an interceptor has made of its arguments. It does not change
// any more.
type door struct {
	options
	locker *lockmw.Locker
	exact  map[string]*lock // by full method
	wild   map[string]*lock // by service, as in "/shop.v1.Orders/"
	first  sync.Once        // call: checkOther
}

// A lock is a rule, made ready for one method.
type lock struct {
	Rule
	fields []field  // of the method's message, as far as known at start-up
	values []string // of earlier interceptors that the key is known to read
	late   bool     // the key is known to be made from the message
}

func newDoor(constructor string, l *lockmw.Locker, rules Rules, opts []Option) *door {
	d := &door{
		options: newOptions(constructor, opts), locker: l,
		exact: make(map[string]*lock), wild: make(map[string]*lock),
	}
	switch {
	case l == nil:
		d.panicf("the Locker is nil")
	case rules == nil:
		d.panicf("the Rules are nil; no method would run under a lock")
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if err := d.add(name, rules); err != nil {
			d.panicf("rule %q: %v", name, err)
		}
	}
	d.give()
	return d
}

// add makes a rule ready for its methods.
func (d *door) add(name string, rules Rules) error {
	rule := rules[name]
	if err := rule.check(d.locker, name); err != nil {
		return err
	}
	service, method := cut(name)
	methods := methodsOf(service)
	if method == wildcard && methods != nil {
		return d.addAll(service, methods, rules)
	}
	var known protoreflect.MethodDescriptor
	if methods != nil {
		if known = methods.ByName(protoreflect.Name(method)); known == nil {
			return noMethod(service, method, methods)
		}
	}
	l, err := d.newLock(name, rule, known)
	if err != nil {
		return err
	}
	if known == nil {
		d.warn(name)
	}
	if method == wildcard {
		d.wild[service] = l
	} else {
		d.exact[name] = l
	}
	return nil
}

// addAll makes the rule of a service ready for all methods that have none of
// their own.
func (d *door) addAll(service string, methods protoreflect.MethodDescriptors, rules Rules) error {
	rule := rules[service+wildcard]
	d.wild[service] = &lock{Rule: rule} // for what is served and not in the descriptor
	for i := range methods.Len() {
		m := methods.Get(i)
		name := fullMethod(m)
		if _, has := rules[name]; has {
			continue
		}
		l, err := d.newLock(name, rule, m)
		if err != nil {
			return fmt.Errorf("method %s: %w", name, err)
		}
		d.exact[name] = l
	}
	return nil
}

// newLock makes a rule ready for a method. m is nil if that is not known.
func (d *door) newLock(name string, rule Rule, m protoreflect.MethodDescriptor) (*lock, error) {
	l, err := newLock(name, rule, m)
	if err == nil && len(l.values) > 0 && d.values == nil {
		return nil, errors.New(noValues(l.values[0]))
	}
	return l, err
}

// newLock asks the key function what it reads, and finds the fields of that in
// the method's message. m is nil if the method is not known.
func newLock(name string, rule Rule, m protoreflect.MethodDescriptor) (*lock, error) {
	read, err := probed(name, rule.Key)
	if err != nil {
		return nil, err
	}
	l := &lock{Rule: rule, values: read.Values, late: len(read.Fields)+len(read.Lists) > 0}
	if m == nil {
		return l, nil
	}
	for _, of := range read.Lists {
		list, err := newList(m.Input(), of.List)
		if err == nil {
			err = list.checkElement(of.Path)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, path := range read.Fields {
		f, err := newField(m.Input(), path)
		if err != nil {
			return nil, err
		}
		l.fields = append(l.fields, f)
	}
	return l, nil
}

// methodsOf returns the methods of a service, or nil if it is not known.
func methodsOf(service string) protoreflect.MethodDescriptors {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(serviceName(service))
	if s, is := found.(protoreflect.ServiceDescriptor); err == nil && is {
		return s.Methods()
	}
	return nil
}

// noMethod is the error of a rule for a method that its service does not have. Such a
// rule is for no call at all, and the method that was meant would run without a lock.
func noMethod(service, method string, methods protoreflect.MethodDescriptors) error {
	var all []string
	for i := range methods.Len() {
		name := fullMethod(methods.Get(i))
		if strings.EqualFold(name, service+method) {
			return fmt.Errorf("the service has no such method: did you mean %s?", name)
		}
		all = append(all, name)
	}
	return fmt.Errorf("the service has no such method, but %s", strings.Join(all, ", "))
}

// warned has the names of rules that were reported: rules are often given to
// both interceptors.
var warned sync.Map

// warn reports a rule whose service is not known to this program. It may be one
// without a descriptor, and works all the same; but it may also be a slip of the
// pen, which leaves the method that was meant without a lock.
func (d *door) warn(name string) {
	if _, again := warned.LoadOrStore(name, true); !again {
		d.log.Warn("grpclock: a rule is for a service that this program does not know: is it spelled right?", "rule", name)
	}
}

// find returns the lock of a method, or nil.
func (d *door) find(method string) *lock {
	if l := d.exact[method]; l != nil {
		return l
	}
	service, _ := cut(method)
	return d.wild[service]
}

// skips reports whether the call is to run without its lock.
func (d *door) skips(ctx context.Context, method string) bool {
	return d.skip != nil && d.skip(ctx, method)
}

// acquire takes the lock of what the key function has returned. Without an
// error and a lease, it asks for no lock.
func (d *door) acquire(ctx context.Context, l *lock, keys keyfunc.Keys, err error) (*lockmw.Lease, error) {
	return entry.Acquire(ctx, d.locker, keys, err, l.Policy)
}

// need panics if what an option was given is nil.
func (o *options) need(option, what string, isNil bool) {
	if isNil {
		o.panicf("%s: the %s is nil", option, what)
	}
}

func (o *options) panicf(format string, args ...any) {
	panic("grpclock: " + o.constructor + ": " + fmt.Sprintf(format, args...))
}
